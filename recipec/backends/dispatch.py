"""Experts in layers of DeepSpeed-MoE: the file of the bundle that has them, and what a loop's train.py does with it."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.render.artifact import Artifact
from recipec.render.traced import Traced

MODULE = "experts"
DECISIONS = ("expert_parallel", "capacity_factor", "eval_capacity_factor", "min_capacity", "balance_loss")
USED = (
    "BALANCE_LOSS",
    "balance_loss",
    "expert_groups",
    "load_metrics",
    "routing",
    "spread_experts",
    "unrouted",
)  # by train.py, of that file


def experts_artifact(stage: StageJob) -> Artifact:
    """experts.py of the bundle."""
    moe = stage.job.facts.model.architecture.moe
    assert moe is not None
    names = {name: stage.traced(name) for name in DECISIONS} | {"block": stage.traced("model", moe.block)}
    return Artifact(f"{stage.folder}{MODULE}.py", stage.ids("loop", "moe"), f"loops/{MODULE}.py.j2", names)


def has_experts_file(stage: StageJob) -> Traced:
    """Whether the bundle has experts.py."""
    return stage.because(stage.dispatches, *["capacity_factor"] * stage.dispatches)


def draws_tokens(stage: StageJob) -> Traced:
    """Whether chance decides which tokens find room: DeepSpeed draws them where a token has one expert."""
    moe = stage.job.facts.model.architecture.moe
    return stage.because(stage.dispatches and moe is not None and moe.per_token == 1, "model")
