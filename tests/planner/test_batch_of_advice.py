"""A change with which the global batch is another one says so, and no other does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import Tables, compiled, with_key
from test_followed_advice import case, followed

FULL = with_key(
    case("Qwen/Qwen3-8B", "h100", train__adaptation="full"),
    "hardware",
    {"gpu": "h100", "gpus_per_node": 8, "nodes": 4},
)
VARLEN = case(
    "Qwen/Qwen3-32B", "rtx-4090", train={"optimizer": "adamw-8bit", "attention": "torch_varlen"}, hardware__nodes=1
)
ONE_GPU = case("Qwen/Qwen3-8B", "rtx-4090", train__adaptation="full")
STATED = with_key(ONE_GPU, "train.global_batch_size", 64)
_BATCH = r"(\d+)( packed sequences?| rows?)?"
NEW = re.compile(rf", with a global batch of {_BATCH} instead of {_BATCH}")


def lines_of(folder: Path, recipe: Tables) -> list[str]:
    """Every change that a recipe is told, of a plan or of what does not fit."""
    found = compiled(folder, recipe, only_plan=True)
    if found.plan is not None:
        return [line for line in found.plan.stages[0].options if line.startswith("set ")]
    return [line for each in found.diagnostics if each.code == "E0402" for line in each.help]


CASES = {
    "a plan": (FULL, 96),  # with 128 fewer than 100 steps would be left
    "nothing fits": (ONE_GPU, 64),
    "packed rows": (VARLEN, 4),
    "a stated batch": (STATED, 64),
}


@pytest.mark.parametrize("name", CASES)
def test_another_global_batch_is_told_with_its_change(tmp_path: Path, name: str) -> None:
    recipe, now = CASES[name]
    lines = lines_of(tmp_path, recipe)
    assert lines and any(NEW.search(line) for line in lines) is (name != "a stated batch")
    for line in lines:
        plan = compiled(tmp_path, followed(recipe, line), only_plan=True).plan
        assert plan is not None, line
        then, told = plan.stages[0].layout.global_batch, NEW.search(line)
        assert (then, now) == ((int(told[1]), int(told[3])) if told else (now, now)), line


def test_a_batch_of_packed_sequences_is_not_compared_with_one_of_rows(tmp_path: Path) -> None:
    (line,) = (line for line in lines_of(tmp_path, case("Qwen/Qwen3-8B", "h100")) if "torch_varlen" in line)
    assert ", with a global batch of 4 packed sequences instead of 32 rows; " in line


def test_a_change_of_the_batch_is_told_once(tmp_path: Path) -> None:
    recipe = with_key(case("Qwen/Qwen3-0.6B", "h100", train__global_batch_size=4), "hardware.gpus_per_node", 8)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan is not None
    (line,) = (line for line in plan.stages[0].work_for_idle if line.startswith("set `train.global_batch_size"))
    assert "with a global batch" not in line
