"""Tables without a key that say nothing by being there."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written
from recipec.recipe.locate import dotted

_SPLIT = ("data", "split")
NEVER_EMPTY = (("train", "experts"), ("alignment", "generation"))


def empty_tables(written: Written) -> Iterator[Diagnostic]:
    """A table that changes nothing (E0401), and a split by no column (E0201)."""
    for path in (path for path in NEVER_EMPTY if written.is_empty(*path)):
        label = written.label(path, "no key")
        help = (f"remove [{dotted(path)}]; `recipec explain {dotted(path)}` tells what its keys are for",)
        yield Diagnostic("E0401", f"[{dotted(path)}] is empty, and has no effect", (label,), help)
    if written.is_empty(*_SPLIT):
        label = written.label(_SPLIT, "needs `stratify`, `group` or `time`")
        help = ('name a column, for example `split = { group = "customer" }`, or remove it: rows are drawn at random',)
        yield Diagnostic("E0201", f"`{dotted(_SPLIT)}` does not say by which column rows are split", (label,), help)
