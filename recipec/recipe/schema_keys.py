"""The keys and values of the schema, as a recipe writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from recipec.axes.adaptations import COMBINED
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema import Recipe


def keys_of(table: KeyPath) -> dict[str, FieldInfo]:
    """Return the keys of a table by the names that a recipe writes; none for a free table such as `launch.env`."""
    model: type[BaseModel] | None = Recipe
    for part in table:
        if isinstance(part, str):
            field = _fields(model).get(part)
            model = _model_in(field.annotation) if field else None
    return _fields(model)


def _fields(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first model inside an annotation such as `list[DataSource] | None`."""
    return next((part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)


def allowed_values(path: KeyPath) -> list[str]:
    """Return the values of an enumeration, as a recipe writes them."""
    keys = tuple(part for part in path if isinstance(part, str))
    values: list[str] = []
    for part in _parts(keys_of(keys[:-1])[keys[-1]].annotation):
        if get_origin(part) is Literal:
            values += get_args(part)
        if part is bool:
            values += ["true", "false"]
    return values


def usual_first(paths: Iterable[str]) -> list[str]:
    """The paths of keys or tables; sections of several adapters, which repeat keys of others, come last."""
    return sorted(paths, key=lambda path: path.partition(".")[0] in COMBINED)


def sections_with_key(key: str) -> list[str]:
    """Return the sections that have a key of this name."""
    return [section for section in Recipe.model_fields if key in keys_of((section,))]
