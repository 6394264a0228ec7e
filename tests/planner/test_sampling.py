"""Which rows share a batch, where the recipe says so: a plan has the padding of rows that chance puts together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, with_key

from recipec.compiler import Compilation


@pytest.mark.parametrize(("asked", "padded"), [("similar-lengths", False), ("random", True)])
def test_rows_in_random_order_are_planned_with_their_padding(tmp_path: Path, asked: str, padded: bool) -> None:
    base, sampled = _planned(tmp_path, None), _planned(tmp_path, asked)
    assert (_speed(sampled) < 0.8 * _speed(base)) is padded


def _planned(folder: Path, sampling: str | None) -> Compilation:
    """A plan for short rows, one in ten of which is forty times as long."""
    rows = [{"prompt": f"Question {n}?", "completion": "word " * (400 if n % 10 == 0 else 10)} for n in range(400)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", "examples": 5000, "max_length": 1024})
    return good(folder, with_key(recipe, "train.sampling", sampling) if sampling else recipe)


def _speed(done: Compilation) -> float:
    """Tokens of the rows, without their padding."""
    return done.plan.stages[0].time.tokens_per_second_per_gpu
