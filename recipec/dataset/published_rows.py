"""What rows hold that no format reads, as the commands that make training rows of them call it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Recognition(Struct, frozen=True):
    """What published rows hold, and how Python calls the parts; `rows` are all of them."""

    pairs: str  # what the command that makes pairs does; "" of rows with one answer
    each: str  # the clauses that go over the pairs
    better: str
    worse: str
    best: str = ""  # what the command does that keeps the better answer alone; "" where it is known only beside another
    prompt: str = ""  # "" where the answers are whole conversations
    alike: str = ""  # one more clause, for pairs
    row: str = "row"  # the row that other columns are taken from
    before: str = ""  # a statement before all
    right: str = ""  # the right answers, which a reward may read


def without(answered: Iterable[bool]) -> str:
    """What is left out where some questions have no answer."""
    all_of = [*answered]
    return f", without those that have none ({all_of.count(False)} of {len(all_of)} sampled)" * (False in all_of)
