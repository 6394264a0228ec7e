"""Lines of files, and what became of them: of a file as it was built, and as it is now."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

# Emitted files have some hundred lines. Comparing takes the square of the lines, and of equal ones far more.
_MOST_LINES = 5_000
_MOST_PAIRS = 2_000_000  # of equal lines


class Stretch(Struct, frozen=True):
    """Lines `old:old_end` of one file that became lines `new:new_end` of another, from 0; equal ones are unchanged."""

    equal: bool
    old: int
    old_end: int
    new: int
    new_end: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each line with what it became, where that is one to one."""
        same = self.old_end - self.old == self.new_end - self.new
        return list(zip(range(self.old, self.old_end), range(self.new, self.new_end), strict=True)) if same else []


def lines_of(text: str) -> list[str]:
    """The lines with their ends; only `\\n` ends a line."""
    return list(io.StringIO(text, newline="\n"))


def stretches(old: Sequence[str], new: Sequence[str]) -> list[Stretch]:
    """What became of the lines. Between two that begin and end alike, too many lines count as changed as a whole."""
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    end, new_end = len(old) - tail, len(new) - tail
    return [
        *([Stretch(True, 0, head, 0, head)] if head else []),
        *_middle(old[head:end], new[head:new_end], head),
        *([Stretch(True, end, len(old), new_end, len(new))] if tail else []),
    ]


def changed_lines(built: str, now: str) -> Iterator[tuple[int, int, str, str]]:
    """Lines that took the place of others: both numbers, from 1, and both texts."""
    old, new = lines_of(built), lines_of(now)
    for each in stretches(old, new):
        yield from ((a + 1, b + 1, old[a], new[b]) for a, b in each.pairs if not each.equal)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


def _middle(old: Sequence[str], new: Sequence[str], start: int) -> list[Stretch]:
    from difflib import SequenceMatcher

    if not old and not new:
        return []
    times = Counter(old)
    if max(len(old), len(new)) > _MOST_LINES or sum(times[line] for line in new) > _MOST_PAIRS:
        return [Stretch(False, start, start + len(old), start, start + len(new))]
    found = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [Stretch(tag == "equal", *(start + place for place in places)) for tag, *places in found]
