"""Votes for and against an answer, such as 1 and -1: the 0 between them is taken for no vote, not for a bad answer."""

from __future__ import annotations

from collections.abc import Sequence


def has_no_votes(numbers: Sequence[float]) -> bool:
    """Whether some of the numbers of a scale are its middle, 0, which says neither good nor bad."""
    return 0 in numbers and min(numbers) == -max(numbers)


def no_votes(numbers: Sequence[float], among: Sequence[object]) -> dict[str, int]:
    """The rows without a vote on a scale, as `leaving_out` tells of them: those of some values."""
    return {'rows with 0, which is taken for "not rated"': [*among].count(0)} if has_no_votes(numbers) else {}
