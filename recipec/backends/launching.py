"""launch/local.sh: everything in order, on one machine or on each of several."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from recipec.backends.configs import config_path
from recipec.backends.job import Job, StageJob
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw

# the options of accelerate for groups of shards, which follow the number of processes
_GROUPS = """\
  --parallelism_config_dp_shard_size "$SHARDS" --parallelism_config_dp_replicate_size "$((PROCESSES / SHARDS))" \\
"""


def launch_artifacts(job: Job) -> list[Artifact]:
    """The launch scripts that the recipe asks for; none when the team has its own launcher."""
    launch = job.loaded.recipe.launch
    if launch.with_ == "none":
        return []
    first = job.stages[0]
    names = {
        "title": f"{job.name} ({', '.join(stage.name for stage in job.stages)})",
        "gated": first.because(bool(job.facts.model.gated), "model"),
        "gated_message": f"{job.facts.model.name} is gated: accept its licence on the hub and set HF_TOKEN",
        "cuda": first.because(job.facts.gpu.vendor == "nvidia", "gpu"),
        "single_gpu": first.because(not first.on_cpu and first.value("world_size") == 1, "world_size"),
        "environment": [SimpleNamespace(name=Raw(name), value=value) for name, value in (launch.env or {}).items()],
        "setup": [Raw(line) for line in launch.setup or []],
        "processes": first.because(-(-first.value("world_size") // first.nodes), "world_size"),
        "shards": first.traced("shards") if first.sharder.copies_shards else None,
        "several_stages": first.because(len(job.stages) > 1, "stage"),
        "stages": [_stage(stage) for stage in job.stages],
    }
    several = ("nodes",) * (first.nodes > 1)
    ids = tuple(id for stage in job.stages for id in stage.ids(*several, "strategy", "stage"))
    template, own = _several_machines(first) if first.nodes > 1 else _one_machine(first)
    return [Artifact("launch/local.sh", ids, template, names | own, executable=True)]


def _one_machine(stage: StageJob) -> tuple[str, dict[str, Any]]:
    return "launch/local.sh.j2", {"distributed": stage.because(bool(stage.sharder.config), "strategy")}


def _several_machines(stage: StageJob) -> tuple[str, dict[str, Any]]:
    return "launch/nodes.sh.j2", {"nodes": stage.because(stage.nodes, "world_size", "gpus_per_node")}


def _stage(stage: StageJob) -> Any:
    return SimpleNamespace(
        name=stage.traced("stage"),
        port=Raw(f'"$((PORT + {stage.index}))"' if stage.index else '"$PORT"'),
        script=Raw(f"{stage.folder}train.py"),
        merge=Raw(f"{stage.folder}merge_adapter.py" if stage.merges else ""),
        groups=Raw(_GROUPS if stage.sharder.copies_shards else ""),
        config=Raw(config_path(stage, stage.sharder.config)),
        deepspeed=Raw(config_path(stage, stage.sharder.deepspeed)),
    )
