"""Columns that rewards read, and that hold values of several types in the sampled rows (E0304)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from recipec.dataset.commands import text_command
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource

_NOTE = "a function that handles one type fails at the first row of another, which may be late in the training"

_TEXT = "a text"


def mixed_types(section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0304 for each column that rewards are handed, and that is not of one type; null is of every type."""
    for column in dict.fromkeys(name for source in sources for name in source.shape.handed):
        held = [
            (place, _kind(row[column]), source)
            for source in sources
            for place, row in zip(source.places, source.rows, strict=True)
            if row.get(column) is not None
        ]
        kinds = Counter(kind for _, kind, _ in held).most_common()
        if len(kinds) > 1:
            usual = kinds[0][0]
            others = [found for found in held if found[1] != usual]
            place, kind, source = others[0]
            said = f"`{column}` is {kind} in {place}, and {usual} in {len(held) - len(others)} of {len(held)} rows"
            title = f"`{column}`, which rewards read, is of several types in data.{section}"
            command = text_command([column], {}, place)
            lines = (f"write {usual} in the other rows, too",) * (usual != _TEXT)
            help = (*lines, "write it as text in every row" + f": {command}" * bool(command))
            yield Diagnostic("E0304", title, (Label(source.place, said),), help, (_NOTE,))


def _kind(value: Any) -> str:
    """The type in words, as the bundle's prepare_data.py tells it; flags are numbers."""
    kinds = {str: _TEXT, list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")
