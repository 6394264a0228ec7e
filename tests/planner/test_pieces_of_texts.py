"""Long texts are cut into several rows where packing is off: how many rows a pass then has."""

from __future__ import annotations

import random
from math import ceil

import pytest

from recipec.planner.search.sequences import training_sequences


def rows(average: int, longest: int | None, max_length: int = 512, overflow: str = "split") -> float:
    """Rows of a pass over 1,000 texts."""
    return training_sequences(
        {
            "stage": "continue-pretrain",
            "examples": 1000,
            "source_rows": 1000,
            "eval_fraction": 0.0,
            "test_fraction": 0.0,
            "packing": False,
            "overflow": overflow,
            "max_length": max_length,
            "tokens_per_example": average,
            "tokens_p99": longest,
        }
    )


def test_texts_that_fit_are_one_row_each() -> None:
    assert rows(200, 512) == 1000
    assert rows(2000, 9000, overflow="truncate") == 1000


@pytest.mark.parametrize("average", [100, 512, 2000])
def test_longer_ones_are_as_many_rows_as_they_have_pieces(average: int) -> None:
    dice = random.Random(7)
    pieces = sum(ceil(dice.expovariate(1 / average) / 512) for _ in range(100_000)) / 100_000
    assert rows(average, 10 * average) / 1000 == pytest.approx(pieces, rel=0.02)


def test_texts_of_one_length_are_missed_by_a_quarter_at_most() -> None:
    for length in range(513, 6000, 7):
        assert 0.78 < rows(length, length) / 1000 / ceil(length / 512) < 1.28
