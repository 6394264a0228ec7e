"""launch/local.sh: everything in order on one machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from recipec.backends.configs import config_path
from recipec.backends.job import Job, StageJob
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw


def launch_artifacts(job: Job) -> list[Artifact]:
    """The launch scripts that the recipe asks for; none when the team has its own launcher."""
    launch = job.loaded.recipe.launch
    if launch.with_ == "none":
        return []
    first, gpu = job.stages[0], job.facts.gpu
    names = {
        "title": f"{job.name} ({', '.join(stage.name for stage in job.stages)})",
        "gated": first.because(bool(job.facts.model.gated), "model"),
        "gated_message": f"{job.facts.model.name} is gated: accept its licence on the hub and set HF_TOKEN",
        "single_gpu": first.because(gpu.kind != "cpu" and first.value("world_size") == 1, "world_size"),
        "cuda": first.because(gpu.vendor == "nvidia", "gpu"),
        "environment": [SimpleNamespace(name=Raw(name), value=value) for name, value in (launch.env or {}).items()],
        "setup": [Raw(line) for line in launch.setup or []],
        "distributed": first.because(bool(first.sharder.config), "strategy"),
        "processes": first.traced("world_size"),
        "several_stages": first.because(len(job.stages) > 1, "stage"),
        "stages": [_stage(stage) for stage in job.stages],
    }
    ids = tuple(id for stage in job.stages for id in stage.ids("strategy", "stage"))
    return [Artifact("launch/local.sh", ids, "launch/local.sh.j2", names, executable=True)]


def _stage(stage: StageJob) -> Any:
    return SimpleNamespace(
        name=stage.traced("stage"),
        script=Raw(f"{stage.folder}train.py"),
        merge=Raw(f"{stage.folder}merge_adapter.py" if stage.merges else ""),
        config=Raw(config_path(stage, stage.sharder.config)),
        deepspeed=Raw(config_path(stage, stage.sharder.deepspeed)),
    )
