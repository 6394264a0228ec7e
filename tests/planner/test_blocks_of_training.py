"""The batch of continued pretraining leaves room for steps by the blocks that are trained, without held-out rows."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner.search.sequences import training_sequences
from recipec.rules import batch


@pytest.mark.parametrize("rows", [10, 30, 100, 400])
def test_the_reason_counts_the_blocks_that_the_warning_counts(tmp_path: Path, rows: int) -> None:
    data = {"data.examples": rows, "data.tokens_per_example": 1_024, "data.max_length": 1_024}
    recipe = BASES["text"]
    for key, value in data.items():
        recipe = with_key(recipe, key, value)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan
    decisions = plan.stages[0].decisions
    blocks = ceil(training_sequences({id: decision.value for id, decision in decisions.items()}))
    assert blocks < rows
    told = re.findall(r"fill ([\d,]+) blocks?", decisions["global_batch_size"].because)
    assert told == [f"{blocks:,}"]


def test_held_out_rows_take_no_step() -> None:
    sizes = ("continue-pretrain", "lora", 319, 7_000_000_000, 2_048, 2_048, True, 1)
    assert batch.global_batch_size(*sizes, 319, 0.0, 0.0).value == 8
    assert batch.global_batch_size(*sizes, 319, 0.5, 0.47).value == 4
