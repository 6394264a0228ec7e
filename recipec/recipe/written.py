"""What a recipe says, and where: the view that checks across keys read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recipec.diagnostics.model import Label, Place
from recipec.recipe.document import Document, Located
from recipec.recipe.locate import KeyPath


@dataclass(frozen=True, slots=True)
class Written:
    """The values of the whole recipe without those that the schema refused, and the places of all of them."""

    data: Mapping[str, Any]
    document: Document

    @property
    def places(self) -> Mapping[KeyPath, Located]:
        return self.document.places

    def get(self, *path: str | int) -> Any:
        """Return the value at `path`, None when it is absent or of the wrong type."""
        return value_at(self.data, path)

    def has(self, *path: str | int) -> bool:
        """Tell whether the recipe writes `path`, rightly or wrongly."""
        return value_at(self.document.data, path) is not None

    def key(self, *path: str | int) -> Place:
        return nearest(self.places, path, self.document).key

    def value(self, *path: str | int) -> Place:
        return nearest(self.places, path, self.document).value

    def label(self, path: KeyPath, message: str = "") -> Label:
        return Label(self.value(*path), message)


def value_at(data: Any, path: KeyPath) -> Any:
    """Return the value at `path` of nested tables and lists, None when there is none."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def nearest(places: Mapping[KeyPath, Located], path: KeyPath, document: Document) -> Located:
    """Return where `path` is written, else its nearest table that is, else the end of the file."""
    while path and path not in places:
        path = path[:-1]
    if path:
        return places[path]
    end = document.source.end()
    return Located(end, end)
