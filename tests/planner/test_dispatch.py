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
