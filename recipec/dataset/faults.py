"""What is wrong with rows: with the format of all of them, or with some, each by its place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

MOST_KINDS = 5  # of faults that a message lists
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.]*")  # what a row holds, in what is said of it


class UnknownFormat(Exception):
    """No format, or more than one, fits the rows: the message says what was seen."""

    def __init__(self, seen: str, help: tuple[str, ...] = ()) -> None:
        super().__init__(seen)
        self.help = help


class TwoReadings(UnknownFormat):
    """A row can be read in two ways, and nothing says which is meant."""


class RowFault(Struct, frozen=True):
    """Why one row cannot be used."""

    place: str
    said: str
    flag: str = ""  # the column that must be true or false, where that is the trouble
    help: tuple[str, ...] = ()  # what to write, where it is the trouble of many such rows
    lacks: str = ""  # what the row lacks, which data.incomplete leaves out

    @property
    def kind(self) -> str:
        """What is said, whatever the row holds."""
        return _VALUE.sub("…", self.said)


def told(faults: Iterable[RowFault]) -> list[str]:
    """Every kind of fault once, with the first row that has it and how many others do."""
    kinds: dict[str, list[RowFault]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, []).append(fault)
    found = [_told(alike) for alike in kinds.values()]
    if len(found) > MOST_KINDS:
        return [*found[:MOST_KINDS], f"and {len(found) - MOST_KINDS} more kinds of faults"]
    return found


def _told(alike: list[RowFault]) -> str:
    others = len(alike) - 1
    more = f" and {others} other row{'s' * (others > 1)}" if others else ""
    return f"{alike[0].place}{more}: {alike[0].said}"
