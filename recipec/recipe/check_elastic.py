"""What keeps a model good at general rows: what elastic weight consolidation and replay need."""

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
_REPLAY = ("data", "replay")


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


def replays(written: Written) -> bool:
    """Whether general rows are learned: elastic weight consolidation alone does not learn them (REPLAY-001)."""
    return written.has(*_REPLAY) or not any(written.has(*table) for table in _TABLES)


def replay_of_nothing(written: Written) -> Iterator[Diagnostic]:
    """A share of general rows, and none are named (E0201)."""
    if written.has(*_REPLAY) and not written.has(*_ROWS):
        label = written.label(_REPLAY, "needs general rows")
        help = ('Add `general = "general.jsonl"` under [data], with rows in a format that training reads.',)
        yield Diagnostic("E0201", f"missing key `{dotted(_ROWS)}`", (label,), help)
