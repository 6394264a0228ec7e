"""Votes for and against an answer, such as 1 and -1: the 0 between them is taken for no vote, not for a bad answer."""

from __future__ import annotations

from collections.abc import Sequence


def has_no_votes(numbers: Sequence[float]) -> bool:
    """Whether some of the numbers of a scale are its middle, 0, which says neither good nor bad."""
    return 0 in numbers and min(numbers) == -max(numbers)


def told_of(numbers: Sequence[float], sampled: int) -> str:
    """What is said of rows without a vote; "" where there are none, or the scale is of another kind."""
    if not has_no_votes(numbers):
        return ""
    zeros = [*numbers].count(0)
    return f'; 0 is taken for "not rated", and these rows ({zeros:,} of {sampled:,} sampled) are left out'
