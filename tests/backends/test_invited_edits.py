"""Lines that messages tell people to edit: a recipe that changes later changes no line beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key

from recipec.bundle.merge import merge_text

CUT = with_key(with_key(BASES["lora-single"], "data.overflow", "truncate"), "data.max_length", 64)


@pytest.mark.parametrize(
    ("file", "recipe", "changed"),
    [
        ("prepare_data.py", BASES["lora-single"], {"recipe.seed": 7}),
        ("prepare_data.py", BASES["sft-dpo"], {"recipe.seed": 7, "data.loss_on": "last-answer"}),
        ("preflight.py", CUT, {"train.keep_checkpoints": 9, "model.name": "google/gemma-3-4b-it"}),
        ("preflight.py", with_key(CUT, "train.loop", "torch"), {"train.keep_checkpoints": 9}),
    ],
    ids=["seed", "two stages", "trainer", "own loop"],
)
def test_a_raised_limit_merges_with_another_recipe(
    tmp_path: Path, file: str, recipe: Tables, changed: dict[str, object]
) -> None:
    last, other = texts(good(tmp_path, recipe))[file], recipe
    for key, value in changed.items():
        other = with_key(other, key, value)
    new = texts(good(tmp_path, other))[file]
    mine = last.replace("\nMAX_DROPPED = 0.", "\nMAX_DROPPED = 0.9  # was 0.")
    merged = merge_text(last, mine, new)
    assert new != last != mine and merged.conflicts == 0 and "MAX_DROPPED = 0.9" in merged.text
