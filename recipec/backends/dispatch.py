"""Experts in layers of DeepSpeed-MoE: the file of the bundle that has them, and what a loop's train.py does with it."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import StageJob
from recipec.render.artifact import Artifact

DECISIONS = ("expert_parallel", "capacity_factor", "eval_capacity_factor", "min_capacity", "balance_loss")
USED = ("BALANCE_LOSS", "balance_loss", "expert_groups", "load", "routing", "spread_experts", "unrouted")  # by train.py, of that file


def experts_artifact(stage: StageJob) -> Artifact:
    """experts.py of the bundle."""
    moe = stage.job.facts.model.architecture.moe
    assert moe is not None
    names = {name: stage.traced(name) for name in DECISIONS} | {"block": stage.traced("model", moe.block)}
    return Artifact(f"{stage.folder}experts.py", stage.ids("loop", "moe"), "loops/experts.py.j2", names)


def dispatch_names(stage: StageJob) -> dict[str, Any]:
    """What the templates of a loop ask."""
    moe = stage.job.facts.model.architecture.moe
    return {
        "dispatches": stage.because(stage.dispatches, *["capacity_factor"] * stage.dispatches),
        "draws_tokens": stage.because(stage.dispatches and moe is not None and moe.per_token == 1, "model"),
    }
