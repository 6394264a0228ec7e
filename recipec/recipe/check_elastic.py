"""Elastic weight consolidation: what its table needs, and rows that nothing would read."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written
from recipec.recipe.locate import dotted
from recipec.recipe.schema_data import GENERAL

_TABLE = ("train", "ewc")
_TABLES = (_TABLE, *(("train", stage, "ewc") for stage in METHODS))
_ROWS = ("data", GENERAL)


def held_by_nothing(written: Written) -> Iterator[Diagnostic]:
    """A table that does not say how strongly, or lacks the rows that tell which weights matter (E0201)."""
    for path in (table for table in _TABLES if written.has(*table)):
        if not any(written.has(*table, "strength") for table in (path, _TABLE)):
            label = written.label(path, "needs `strength`")
            help = ("Add `strength`, for example `strength = 10.0`, and compare the loss on general rows.",)
            yield Diagnostic("E0201", f"`{dotted(path)}` does not say how strongly weights are held", (label,), help)
        if not written.has(*_ROWS):
            label = written.label(path, "needs rows that tell which weights matter")
            help = ('Add `general = "general.jsonl"` under [data], with rows in a format that training reads.',)
            yield Diagnostic("E0201", f"missing key `{dotted(_ROWS)}`", (label,), help)


def general_for_nothing(written: Written) -> Iterator[Diagnostic]:
    """General rows are read for the penalty alone (E0401)."""
    if written.has(*_ROWS) and not any(written.has(*table) for table in _TABLES):
        title = f"`{dotted(_ROWS)}` without `{dotted(_TABLE)}`"
        label = written.label(_ROWS, "nothing reads these rows")
        help = (
            "Add `ewc = { strength = 10.0 }` under [train] to hold the weights that matter for these rows.",
            'To train on them, add them to `data.train` with a `weight`: `{ path = "general.jsonl", weight = 0.2 }`.',
        )
        yield Diagnostic("E0401", title, (label,), help)
