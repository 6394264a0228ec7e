"""What starts a bundle: a script, from the numbers of its own stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from msgspec import Struct

from recipec.backends.adaptations.packed import quantizing
from recipec.backends.configs import config_path
from recipec.backends.evaluation import shares_rows
from recipec.backends.generators import SERVER
from recipec.backends.job import Job, StageJob
from recipec.backends.machine import gpu_names, written_gib
from recipec.backends.models import gated
from recipec.backends.trackers import login
from recipec.render.artifact import Artifact
from recipec.render.environment import snippet
from recipec.render.traced import Raw, fragment


class Launcher(Struct, frozen=True, kw_only=True):
    """One way to start a bundle, and the recipes that want it."""

    asked_by: str  # the value of launch.with
    one_node: bool  # whether it is for runs on one node
    several_nodes: bool  # whether it is for runs on several
    command: str  # what stands before the script's path to start it
    script: str  # its path in the bundle
    template: str
    usage: str  # the template of the commands in README.md
    names: Callable[[Job], Mapping[str, Any]]  # what its templates read beside the stages
    told: Callable[[Job], Mapping[str, Any]] = lambda job: {}  # what the template of its usage reads beside those


def script_artifact(launcher: Launcher, job: Job) -> Artifact:
    """The script of a launcher."""
    ids = job.ids(*("nodes",) * launcher.several_nodes, "strategy", "stage")
    names = {**_names(job), **_start(launcher, job), **launcher.names(job)}
    return Artifact(launcher.script, ids, launcher.template, names, executable=True)


def usage(launcher: Launcher, job: Job) -> Raw:
    """The commands that start it, for README.md."""
    names = {**_start(launcher, job), **launcher.names(job), **launcher.told(job), "blank": Raw(" " * len(_short(job)))}
    return snippet(launcher.usage, names, job.ids("world_size", "total_steps"))


def own_usage(job: Job) -> Raw:
    """The commands of a bundle without a launch script, for README.md: the same scripts, in the bundle's folder."""
    stages = [_stage(stage, own_device=False) for stage in job.stages]
    for stage, each in zip(job.stages, stages, strict=True):
        each.before, each.after, each.merged = (_own_evaluation(stage, when) for when in ("before", "after", "merged"))
    names = {**_added(job), "stages": stages, "several_nodes": job.because(job.nodes > 1, "world_size")}
    return snippet("launch/own.md.j2", names, job.ids("world_size", "stage"))


LOOK_STEPS = 20  # of a first look, at most: our decision


def first_look(job: Job) -> int:
    """Optimizer steps of a first look: no more than half of the shortest stage's, but a whole generation at least."""
    most = min(LOOK_STEPS, *(stage.value("total_steps") // 2 for stage in job.stages))
    taught = max(stage.plan.work.steps_taught for stage in job.stages)
    return max(1, most // taught) * taught


def _start(launcher: Launcher, job: Job) -> dict[str, Any]:
    start = Raw(f"{launcher.command} {launcher.script}")
    short = fragment(_short(job), job.ids("total_steps"))
    return {"start": start, "short": short, "several_nodes": launcher.several_nodes}


def _short(job: Job) -> str:
    return f"--max-steps {first_look(job)}"


def _names(job: Job) -> dict[str, Any]:
    launch, first = job.loaded.recipe.launch, job.stages[0]
    gate = " ".join(f"{name} is gated. Accept its license on the Hub, and set HF_TOKEN." for name in gated(job))
    alone = [not stage.on_cpu and stage.value("world_size") == 1 for stage in job.stages]
    written = written_gib(job)
    all_alone = all(alone) and not any(stage.served_by for stage in job.stages)
    return {
        "title": f"{job.name} ({', '.join(stage.name for stage in job.stages)})",
        "gated": first.because(bool(gate), "model"),
        "gated_message": gate,
        "login": job.because(login(job.stages), "tracker"),
        **gpu_names(job),
        "expandable": job.because(_expandable(job), "gpu", "generator"),
        "one_device": job.because(all_alone, "world_size"),
        "environment": [SimpleNamespace(name=Raw(name), value=value) for name, value in (launch.env or {}).items()],
        "setup": [Raw(line) for line in launch.setup or []],
        **_added(job),
        "writes_gib": fragment(" ".join(written.values()), job.ids("prediction", "keep_checkpoints")),
        "written": fragment(", ".join(written), job.ids("model", *("new_tokens",) * bool(job.facts.new_tokens))),
        "several_stages": first.because(len(job.stages) > 1, "stage"),
        "stages": [_stage(stage, one and not all_alone) for stage, one in zip(job.stages, alone, strict=True)],
    }


def _added(job: Job) -> dict[str, Any]:
    """What is made of the model before the first stage."""
    return {
        "text_part": job.stages[0].because(job.facts.model.stored is not None, "model"),
        "new_tokens": job.stages[0].traced("new_tokens") if job.facts.new_tokens else 0,
    }


def _stage(stage: StageJob, own_device: bool) -> Any:
    """How one stage is started: with its own processes, nodes, shards, configuration and devices."""
    return SimpleNamespace(
        name=stage.named,
        variable=Raw(stage.variable),
        distributed=stage.because(stage.strategy.distributed, "strategy"),
        own_device=stage.because(own_device, "world_size"),
        processes=stage.because(-(-stage.value("world_size") // stage.nodes), "world_size"),
        nodes=stage.because(stage.nodes, "world_size", "gpus_per_node"),
        fewer_nodes=stage.because(stage.nodes < stage.job.nodes, "world_size", "gpus_per_node"),
        host_optimizer=stage.because(stage.plan.layout.offloads, "offload"),
        shards=stage.because(stage.plan.layout.mesh.shard if stage.strategy.groups else 0, "shards", "strategy"),
        port=Raw(f'"$((PORT + {stage.index}))"' if stage.index else '"$PORT"'),
        script=Raw(f"{stage.folder}train.py"),
        serves=Raw(f"{stage.folder}{SERVER}.py" if stage.served_by else ""),
        before=_evaluation(stage, "before"),
        quantize=quantizing(stage),
        after=_evaluation(stage, "after"),
        merge=Raw(f"{stage.folder}merge_adapter.py" if stage.merges else ""),
        merged=_evaluation(stage, "merged") if evaluates_merged(stage) else Raw(""),
        config=Raw(config_path(stage, stage.engine.config)),
        deepspeed=Raw(config_path(stage, stage.engine.deepspeed)),
    )


def evaluates_merged(stage: StageJob) -> bool:
    """Whether the script evaluates the merged model: not one that finds no room on the GPUs of a node."""
    merged = stage.plan.needs.evaluation.merged_as(stage.stored_again)
    return stage.merges and merged is not None and not merged.offloaded


def _evaluation(stage: StageJob, when: str) -> Raw:
    """How a launch script starts evaluate.py, on as many processes of a node as train there."""
    count = f"${stage.variable}_PROCESSES"
    count = f"$(({count[1:]} / {stage.variable}_NODES))" if stage.job.nodes > 1 else count
    words = [*_evaluating(stage, when, f'"{count}"', '"$BUNDLE/{}"'), '${QUICK:+"$QUICK"}']
    return fragment(" ".join(words), stage.ids("strategy", "prediction"))


def _own_evaluation(stage: StageJob, when: str) -> Raw:
    """The same in words that a person types in the bundle's folder; "" where there is no merged model to evaluate."""
    if when == "merged" and not evaluates_merged(stage):
        return Raw("")
    return fragment(typed_evaluation(stage, when), stage.ids("strategy", "prediction", "world_size"))


def typed_evaluation(stage: StageJob, when: str) -> str:
    """These words, as text of a sentence."""
    return " ".join(_evaluating(stage, when, str(stage.value("world_size") // stage.nodes), "{}"))


def _evaluating(stage: StageJob, when: str, processes: str, path: str) -> list[str]:
    """How evaluate.py is started: one process for each GPU where each holds the whole model, else one process."""
    needs = stage.plan.needs.evaluation
    merged = needs.merged_as(stage.stored_again)
    held = merged if when == "merged" and merged else needs.trained
    words = ["python"]
    if shares_rows(stage) and held.whole:
        words = ["torchrun", "--standalone", "--nproc-per-node", processes]
    return [*words, path.format(f"{stage.folder}evaluate.py"), when, *["--offload"] * held.offloaded]


def _expandable(job: Job) -> bool:
    """Whether the allocator of CUDA may map its segments as they grow.

    A generator that sleeps keeps its memory in a pool of its own, which refuses such segments (vLLM 0.30
    device_allocator/cumem.py: AssertionError; pytorch issue 147851).
    """
    copied = [stage for stage in job.stages if stage.method.generates and stage.method.written_by.own_copy]
    sleeping = any(not stage.served_by for stage in copied)
    return job.facts.gpu.vendor == "nvidia" and not sleeping
