"""What a recipe cannot ask of a loop that train.py has itself."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS
from recipec.axes.loops import LOOPS
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written

LOOP, TRACKERS = ("train", "loop"), ("track", "to")
_ARGUMENTS = (("train", "arguments"), *(("train", stage, "arguments") for stage in METHODS))


def asked_of_loops(written: Written) -> Iterator[Diagnostic]:
    """Keywords of a trainer that is not there, and trackers that the loop does not write to."""
    row = LOOPS.get(written.get(*LOOP))
    if row is None or not row.own:
        return
    for path in _ARGUMENTS:
        if written.has(*path):
            labels = (written.label(path, f"{row.title} has no trainer that reads them"), written.label(LOOP, "here"))
            title = f"trainer arguments beside `train.loop = {row.name}`"
            yield Diagnostic("E0401", title, labels, ("remove one of them: train.py is yours to change",))
    asked = written.get(*TRACKERS)
    for name in [asked] if isinstance(asked, str) else asked or ():
        if name not in row.trackers:
            labels = (written.label(TRACKERS, f"{row.title} does not write to {name}"), written.label(LOOP, "here"))
            title = f"`track.to = {name}` and `train.loop = {row.name}` contradict each other"
            help = f'use loop = "{_with_tracker(name)}", or to = "{row.trackers[0]}"'
            yield Diagnostic("E0401", title, labels, (help,))


def _with_tracker(name: str) -> str:
    """The first loop that writes to a tracker."""
    return next((row.name for row in LOOPS.values() if row.own and name in row.trackers), next(iter(LOOPS)))
