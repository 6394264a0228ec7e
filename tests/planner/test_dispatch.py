"""Experts in layers of DeepSpeed-MoE: over how many GPUs they are spread where the recipe leaves that open."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key


def pretrained(model: str, gpu: str) -> Tables:
    """From random weights on eight GPUs, with a loop on DeepSpeed's engine."""
    recipe = with_key(with_key(BASES["text"], "goal.task", "pretrain"), "model.name", model)
    hardware = {"gpu": gpu, "gpus_per_node": 8, "host_memory_gib": 2000}
    return with_key(with_key(recipe, "train", {"loop": "deepspeed"}), "hardware", hardware)


@pytest.mark.parametrize(
    ("model", "gpu", "ranks"), [("mistralai/Mixtral-8x7B-v0.1", "h200", 8), ("Qwen/Qwen3-30B-A3B-Base", "b200", 1)]
)
def test_experts_are_spread_where_nothing_else_fits(tmp_path: Path, model: str, gpu: str, ranks: int) -> None:
    plan = compiled(tmp_path, pretrained(model, gpu), only_plan=True).plan
    assert plan
    stage = plan.stages[0]
    assert stage.layout.mesh.expert == stage.value("expert_parallel") == ranks
    assert stage.layout.can_be_built


@pytest.mark.parametrize("model", ["mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B-Base"])
def test_activations_are_kept_where_spread_experts_leave_room_for_them(tmp_path: Path, model: str) -> None:
    """Computed once, they take less time than layers that are recomputed."""
    recipe = pretrained(model, "h200")
    plans = [
        compiled(tmp_path, each, only_plan=True).plan
        for each in (recipe, with_key(recipe, "train.activation_checkpointing", True))
    ]
    kept, recomputed = (plan.stages[0] for plan in plans if plan)
    assert kept.layout.mesh.expert > 1 and not kept.layout.checkpointing
    assert kept.seconds < 0.9 * recomputed.seconds
