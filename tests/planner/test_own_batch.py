"""A global batch that recipec plans by itself is one that a recipe may set without a warning."""

from __future__ import annotations

from pathlib import Path

from compiling import BASES, compiled, with_key

SHARED = with_key(with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-8B"), "train.adaptation", "full")
SHARED["data"] |= {"examples": 100_000, "tokens_per_example": 600, "max_length": 4096}
SHARED["hardware"] = {"gpu": "h100", "gpus_per_node": 8, "nodes": 6, "network_gbps": 400}


def test_a_batch_that_gpus_share_is_accepted_from_a_recipe(tmp_path: Path) -> None:
    """48 GPUs share 528 rows: 512 is the most that the rule accepts, and up to 7% more is taken."""
    plan = compiled(tmp_path, SHARED, only_plan=True).plan
    assert plan is not None
    size = plan.stages[0].layout.global_batch
    assert size == 528
    for stated, warned in ((size, False), (2 * size, True)):
        found = compiled(tmp_path, with_key(SHARED, "train.global_batch_size", stated), only_plan=True).diagnostics
        told = [label.message for each in found if each.code == "W0501" for label in each.labels]
        assert bool(told) is warned
        assert all(f"recipec would choose {size}: " in text for text in told)
