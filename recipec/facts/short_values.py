"""The shortest values of the columns that rewards compare answers with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipec.facts.sources import SampledSource


def shortest_values(sources: Sequence[SampledSource], columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Column -> its shortest value as text, of a list the shortest item, and the place of its row."""
    placed = [one for source in sources for one in zip(source.places, source.rows, strict=True)]
    found: dict[str, tuple[str, str]] = {}
    for column in columns:
        values = [(str(item), place) for place, row in placed for item in _items(row.get(column))]
        if values:
            found[column] = min(values, key=lambda one: len(one[0]))
    return found


def _items(value: Any) -> list[Any]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str | int | float) and item != ""]
