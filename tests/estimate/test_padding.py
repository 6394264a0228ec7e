"""Rows that meet by chance are padded to the longest of them."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from recipec.estimate.padding import padded_tokens


@pytest.mark.parametrize("deviation", [0.3, 0.6])
@pytest.mark.parametrize("rows", [2, 8, 64])
def test_it_is_the_mean_longest_of_drawn_rows(deviation: float, rows: int) -> None:
    chance = random.Random(3)
    lengths = sorted(chance.lognormvariate(4, deviation) for _ in range(20_000))
    p99 = lengths[int(0.99 * len(lengths))]
    longest = mean(min(p99, max(chance.choices(lengths, k=rows))) for _ in range(2_000))
    assert padded_tokens(mean(lengths), p99, rows) == pytest.approx(longest, rel=0.06)


@pytest.mark.parametrize(("p99", "rows"), [(None, 8), (40.0, 8), (50.0, 8), (200.0, 1)])
def test_what_says_nothing_of_a_spread_pads_nothing(p99: float | None, rows: int) -> None:
    assert padded_tokens(50.0, p99, rows) == 50.0
