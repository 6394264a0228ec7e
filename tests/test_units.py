"""Sizes and times as people read them."""

from __future__ import annotations

import pytest

from recipec.units import GIB, KIB, MIB, gib, shown_share, times


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        *((0, "0.0 GiB"), (60 * KIB, "60 KiB"), (18 * MIB, "18 MiB"), (51 * MIB, "51 MiB")),
        *((52 * MIB, "0.1 GiB"), (1536 * GIB, "1,536.0 GiB")),
    ],
)
def test_no_size_is_told_as_nothing(size_bytes: int, text: str) -> None:
    assert gib(size_bytes) == text


def test_a_share_is_told_as_it_was_written() -> None:
    shares = (0.1, 0.025, 0.07, 0.99999, 1e-7, 0.5, 1)
    assert [*map(shown_share, shares)] == ["10%", "2.5%", "7%", "99.999%", "0.00001%", "50%", "100%"]


def test_no_time_is_told_as_none() -> None:
    assert [*map(times, (0.04, 0.06, 1.04, 3.27))] == [
        "0.04x the time",
        "0.1x the time",
        "the same time",
        "3.3x the time",
    ]
