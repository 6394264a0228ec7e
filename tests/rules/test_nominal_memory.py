"""Thresholds of the rule books are in the GB of the makers: a card falls into the branch that its name says."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.rules.words import gpu_memory


@pytest.mark.parametrize(
    ("gpu", "branch"),
    [("t4", "16-48"), ("v100-16gb", "16-48"), ("rtx-4080", "16-48"), ("a40", "48-160"), ("l40s", "48-160")],
)
def test_a_card_is_in_the_branch_of_its_name(tmp_path: Path, gpu: str, branch: str) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "hardware.gpu", gpu), "model.name", "Qwen/Qwen3-0.6B")
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan and gpu_memory(plan.stages[0].decisions["total_vram_gb"].value, False) == branch
