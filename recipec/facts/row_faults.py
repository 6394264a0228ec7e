"""Sampled rows that preparation would refuse: every kind of fault at once, each with its first row (E0304)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes.row_formats import FLAG_TEXTS, USUAL_FLAGS
from recipec.dataset import MOST_KINDS, RowFault, told
from recipec.diagnostics.model import Diagnostic, Label, Place


def unusable(part: str, place: Place, faults: Sequence[RowFault], sampled: int) -> Diagnostic:
    """The rows of a part of the data that cannot be used, of so many that were sampled."""
    rows = list(dict.fromkeys(fault.place for fault in faults))
    left_out = _left_out(faults) if any(not fault.lacks for fault in faults) or len(rows) < sampled else ()
    help = (*left_out, *dict.fromkeys(line for fault in faults for line in fault.help), *_of_flags(faults))
    if len(rows) == len(faults) == 1:
        return Diagnostic("E0304", f"`{rows[0]}` cannot be used", (Label(place, faults[0].said),), help)
    first, *others = told(faults)
    title = f"{len(rows)} of {sampled} sampled rows of data.{part} cannot be used"
    return Diagnostic("E0304", title, (Label(place, first),), help, tuple(others))


def _left_out(faults: Sequence[RowFault]) -> Iterator[str]:
    """The key that leaves out rows which lack something; where others have another fault, which ones."""
    lacks = list(dict.fromkeys(fault.lacks for fault in faults if fault.lacks))
    rows = "such rows" if all(fault.lacks for fault in faults) else f"rows with {' or '.join(lacks[:MOST_KINDS])}"
    if lacks:
        yield f'to leave {rows} out, counted: `incomplete = "skip"` under [data]'


def _of_flags(faults: Sequence[RowFault]) -> Iterator[str]:
    """What to write where a column must be true or false."""
    for name in dict.fromkeys(fault.flag for fault in faults if fault.flag):
        yield f"write true or false in `{name}` of every row, or 1 or 0 in every row"
        yield f"other pairs that recipec reads: {', '.join(name for name in FLAG_TEXTS if name not in USUAL_FLAGS)}"
