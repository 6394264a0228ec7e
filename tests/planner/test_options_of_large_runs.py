"""Options of a large run: a larger accepted global batch, and checkpoints where none is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner.advice.whole_runs import WORTH_NAMING
from recipec.units import duration, gib, usd

DATA = {"train": {"hub": "org/chat", "format": "chat"}, "examples": 200_000, "tokens_per_example": 1_500}
HARDWARE = {"gpu": "h100", "gpus_per_node": 8, "nodes": 8, "network_gbps": 3200}
LARGE: Tables = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.3-70B-Instruct"},
    "data": DATA | {"max_length": 8192},
    "train": {"adaptation": "full"},
    "hardware": HARDWARE,
}


def test_a_larger_batch_is_named_and_comes_true(tmp_path: Path) -> None:
    now = compiled(tmp_path, LARGE, only_plan=True).plan
    assert now is not None
    (line,) = [line for line in now.stages[0].options if "train.global_batch_size = " in line]
    then = compiled(tmp_path, applied(LARGE, line), only_plan=True)
    assert then.plan is not None and not [each for each in then.diagnostics if each.code == "W0501"]
    assert then.plan.seconds <= WORTH_NAMING * now.seconds
    for before, after in (
        (duration(now.seconds), duration(then.plan.seconds)),
        (usd(now.cost_usd), usd(then.plan.cost_usd)),
        (f"{now.stages[0].steps:,}", f"{then.plan.stages[0].steps:,}"),
    ):
        assert f"{after} instead of {before}" in line


@pytest.mark.parametrize("recipe", [with_key(LARGE, "train.global_batch_size", 64), BASES["lora-single"]])
def test_no_batch_is_named_that_the_recipe_decides_or_that_gains_little(tmp_path: Path, recipe: Tables) -> None:
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan is not None
    assert not [line for line in plan.stages[0].options if line.startswith("set `train.global_batch_size")]


def test_checkpoints_of_a_costly_run_are_named_with_what_they_take_and_come_true(tmp_path: Path) -> None:
    """A checkpoint of 70B takes so long that none is planned."""
    now = compiled(tmp_path, LARGE, only_plan=True).plan
    assert now is not None
    (line,) = [line for line in now.stages[0].options if line.startswith("set `train.save_every = ")]
    then = compiled(tmp_path, applied(LARGE, line), only_plan=True).plan
    assert then is not None
    (part,) = [part for part in then.stages[0].parts if part.name == "checkpoints"]
    assert part.because.partition(" each")[0].split(" at ")[0].split(", ")[0] in line
    assert f"{duration(then.seconds)} instead of {duration(now.seconds)}" in line
    assert f"{usd(then.cost_usd)} instead of {usd(now.cost_usd)}" in line
    disk = [gib(plan.stages[0].needs.storage.total_bytes) for plan in (then, now)]
    assert f"{disk[0]} of disk instead of {disk[1]}" in line
    cheap = compiled(tmp_path, BASES["lora-single"], only_plan=True).plan
    assert cheap is not None and not [each for each in cheap.stages[0].options if "train.save_every" in each]
