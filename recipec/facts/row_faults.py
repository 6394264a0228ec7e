"""Sampled rows that preparation would refuse: every kind of fault at once, each with its first row (E0304)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.dataset import RowFault, told
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.facts.sources import SampledSource


def unusable(part: str, place: Place, faults: Sequence[RowFault], sources: Sequence[SampledSource]) -> Diagnostic:
    """The rows of a part of the data that cannot be used."""
    rows = list(dict.fromkeys(fault.place for fault in faults))
    help = tuple(_of_flags(faults))
    if len(rows) == len(faults) == 1:
        return Diagnostic("E0304", f"`{rows[0]}` cannot be used", (Label(place, faults[0].said),), help)
    first, *others = told(faults)
    title = f"{len(rows)} of {sum(len(source.rows) for source in sources)} sampled rows of data.{part} cannot be used"
    return Diagnostic("E0304", title, (Label(place, first),), help, tuple(others))


def _of_flags(faults: Sequence[RowFault]) -> Iterator[str]:
    """What to write where a column must be true or false."""
    for name in dict.fromkeys(fault.flag for fault in faults if fault.flag):
        yield f"write true or false in `{name}` of every row, or 1 or 0 in every row"
