"""[[adapters]]: each task as a recipe of its own, so that every other pass reads what it always reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.recipe.document import Document, Located
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema import rivals
from recipec.recipe.schema_adapters import OF_ONE_TASK

LIST = "adapters"  # the key of the list


def of_one_task(document: Document) -> dict[str, Document]:
    """Name of an adapter -> the recipe that trains it alone; empty where a sound recipe has no [[adapters]]."""
    adapters = document.data.get(LIST) or []
    return {table["name"]: _alone(document, table, (LIST, index)) for index, table in enumerate(adapters)}


def _alone(document: Document, table: Mapping[str, Any], at: KeyPath) -> Document:
    """The recipe with what one adapter says in the places where a recipe of one task says it."""
    data = {name: value for name, value in document.data.items() if name != LIST}
    places = dict(document.places)
    for key, path in OF_ONE_TASK.items():
        if key in table:
            kept = [OF_ONE_TASK[other] for other in table if other in OF_ONE_TASK]
            held = [path, *(rival for rival in rivals(path) if rival not in kept)]
            data = _without(data, [(one[0], stage, *one[1:]) for one in held for stage in METHODS])  # of all adapters
            data = _laid(data, path, table[key], kept)
            places |= _moved_places(document.places, (*at, key), path)
            for depth in range(1, len(path)):
                places.setdefault(path[:depth], document.places[(*at, key)])
    places.setdefault(("data",), places[at])
    return replace(document, data=data, places=places)


def _laid(data: dict[str, Any], path: KeyPath, value: Any, kept: Any) -> dict[str, Any]:
    """The tables with one value more; what it excludes goes, but for what the same adapter says."""
    dropped = [rival for rival in rivals(path) if rival not in kept]
    first, *rest = path
    table = {name: old for name, old in data.get(first, {}).items() if (first, name) not in dropped} if rest else {}
    return {**data, first: _laid(table, tuple(rest), value, kept) if rest else value}


def _without(data: dict[str, Any], paths: Sequence[KeyPath]) -> dict[str, Any]:
    """The tables without the values at the paths."""
    kept = {name: value for name, value in data.items() if (name,) not in paths}
    below = {name: [rest for first, *rest in paths if first == name and rest] for name in kept}
    return {
        name: _without(value, [tuple(path) for path in below[name]]) if isinstance(value, dict) else value
        for name, value in kept.items()
    }


def _moved_places(places: Mapping[KeyPath, Located], source: KeyPath, path: KeyPath) -> dict[KeyPath, Located]:
    depth = len(source)
    return {(*path, *at[depth:]): located for at, located in places.items() if at[:depth] == source}
