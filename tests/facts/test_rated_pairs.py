"""Pairs with ratings beside them that prefer the rejected answer: counted, with the first of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic


def told(folder: Path, names: tuple[str, str], values: list[tuple[object, object]]) -> list[Diagnostic]:
    rows = [
        {"prompt": f"Why {n}?", "chosen": f"So {n}.", "rejected": f"No {n}.", names[0]: better, names[1]: worse}
        for n, (better, worse) in enumerate(values * 8)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["dpo-full"], "data.preferences", "rated.jsonl")
    return [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code == "W0560"]


@pytest.mark.parametrize("names", [("chosen_rating", "rejected_rating"), ("score_chosen", "score_rejected")])
def test_pairs_that_are_rated_the_other_way_round_are_told(tmp_path: Path, names: tuple[str, str]) -> None:
    (found,) = told(tmp_path, names, [(5, 1), (2, 4.5), ("7", "10"), (3, 3), (None, 4), (float("nan"), 4)])
    assert found.title.startswith("16 of 48 sampled pairs of data.preferences")
    assert f"rated.jsonl:2: `{names[0]}` is 2, `{names[1]}` is 4.5" in found.labels[0].message
    assert not told(tmp_path, names, [(5, 1), (3, 3)])


@pytest.mark.parametrize("names", [("chosen_length", "rejected_length"), ("chosen_rank", "rejected_rank")])
def test_numbers_that_rate_nothing_are_not_compared(tmp_path: Path, names: tuple[str, str]) -> None:
    assert not told(tmp_path, names, [(1, 5), (2, 1)])
