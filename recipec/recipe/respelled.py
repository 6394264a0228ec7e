"""A document with its misspelled keys as they are meant, so that what they hold is checked in the same round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from recipec.recipe.document import Document, value_at
from recipec.recipe.locate import KeyPath
from recipec.recipe.misplaced import homes_of, near_to
from recipec.recipe.schema_keys import keys_of

_ALIKE = 0.7  # of the letters of two names, by difflib: "nmae" and "name" share 0.75 of them; our decision


def names_meant(document: Document, unknown: Iterable[KeyPath]) -> dict[KeyPath, str]:
    """The unknown keys that stand for one key each -> that one."""
    names = {path: name for path in unknown if (name := _meant_by(path, value_at(document.data, path[:-1])))}
    once = Counter((path[:-1], name) for path, name in names.items())
    return {path: name for path, name in names.items() if once[path[:-1], name] == 1}


def _meant_by(path: KeyPath, table: Mapping[str, Any]) -> str:
    """The key that an unknown one is spelled like; "" where none is, or the `table` has that one, too."""
    key = str(path[-1])
    near = "" if homes_of(key) else near_to(key, list(keys_of(path[:-1])))
    return near if near not in table and SequenceMatcher(None, key.lower(), near).ratio() >= _ALIKE else ""


def respelled(document: Document, names: Mapping[KeyPath, str]) -> Document:
    """The document with other names for some of its keys, which stay in their places."""
    moved = {path: (*path[:-1], name) for path, name in names.items()}
    places = {_moved(path, moved): place for path, place in document.places.items()}
    return Document(document.source, _renamed(document.data, (), names), places)


def _renamed(value: Any, path: KeyPath, names: Mapping[KeyPath, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(part, (*path, index), names) for index, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {names.get((*path, key), key): _renamed(part, (*path, key), names) for key, part in value.items()}


def _moved(path: KeyPath, moved: Mapping[KeyPath, Sequence[str | int]]) -> KeyPath:
    """The path with the new name of every key on it that has one."""
    return tuple(moved.get(path[: depth + 1], path[: depth + 1])[-1] for depth in range(len(path)))
