"""A recipe with other values of some keys, and whether it still agrees with itself: what is proposed to a user must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel

from recipec.diagnostics.model import Report
from recipec.recipe.clashes import TABLES
from recipec.recipe.contradictions import contradictions
from recipec.recipe.document import Document, Written
from recipec.recipe.load import LoadedRecipe
from recipec.recipe.schema_training import ADAPTED, attribute


def agrees(loaded: LoadedRecipe, sets: Iterable[tuple[str, Any]], removes: Iterable[str]) -> bool:
    """Tell whether the keys of a recipe hold together (E0201, E0204, E04xx) once some are set, and others removed."""
    data: Mapping[str, Any] = loaded.document.data
    for key, value in (*((key, None) for key in removes), *sets):
        data = _with(data, key.split("."), value)
    report, document = Report(), Document(loaded.document.source, dict(data), loaded.document.places)
    contradictions(Written(document.data, document), report, of_task=bool(loaded.task))
    return not report.has_errors


def with_adapters(loaded: LoadedRecipe, key: str, value: str | None) -> LoadedRecipe:
    """The recipe with another value of a key in every table of adapters that sets it."""
    train = loaded.recipe.train
    stages = {name: table for name in map(attribute, ADAPTED) if (table := getattr(train, name)) is not None}
    own = {name: table.model_copy(update=_shaped(table, key, value)) for name, table in stages.items()}
    changed = train.model_copy(update={**_shaped(train, key, value), **own})
    return replace(loaded, recipe=loaded.recipe.model_copy(update={"train": changed}))


def _shaped(train: BaseModel, key: str, value: str | None) -> dict[str, BaseModel]:
    """The tables of adapters in [train], or in that of a stage, that set a key, with another value."""
    tables = {name: getattr(train, name) for name in TABLES}
    written = {name: table for name, table in tables.items() if getattr(table, key, None) is not None}
    return {name: table.model_copy(update={key: value}) for name, table in written.items()}


def _with(table: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A table with another value at a path; None removes it."""
    key, *rest = path
    inner = table.get(key)
    new = _with(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    others = {name: other for name, other in table.items() if name != key}
    return others if new is None or (rest and not new and inner is None) else {**others, key: new}
