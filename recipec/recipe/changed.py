"""Whether a recipe still agrees with itself with other values of some keys: what is proposed to a user must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recipec.diagnostics.model import Report
from recipec.recipe.contradictions import contradictions
from recipec.recipe.document import Document, Written
from recipec.recipe.load import LoadedRecipe


def agrees(loaded: LoadedRecipe, sets: Iterable[tuple[str, Any]], removes: Iterable[str]) -> bool:
    """Tell whether the keys of a recipe hold together (E0201, E0204, E04xx) once some are set, and others removed."""
    data: Mapping[str, Any] = loaded.document.data
    for key, value in (*((key, None) for key in removes), *sets):
        data = _with(data, key.split("."), value)
    report, document = Report(), Document(loaded.document.source, dict(data), loaded.document.places)
    contradictions(Written(document.data, document), report, of_task=bool(loaded.task))
    return not report.has_errors


def _with(table: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A table with another value at a path; None removes it."""
    key, *rest = path
    inner = table.get(key)
    new = _with(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    others = {name: other for name, other in table.items() if name != key}
    return others if new is None or (rest and not new and inner is None) else {**others, key: new}
