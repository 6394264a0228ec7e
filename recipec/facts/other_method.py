"""The method that learns from rows which the recipe's own method does not take."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS, ROW_FORMATS, Method
from recipec.axes.tasks import AUTO
from recipec.recipe import LoadedRecipe


def learns_from(loaded: LoadedRecipe, section: str, format: str) -> Iterator[str]:
    """Yield how to ask for a method that takes rows of a format: of the recipe's task, else the usual one for them."""
    task = loaded.recipe.goal.task
    alike = [row for row in METHODS.values() if format in row.formats and row.task == task and row.alignment]
    method = alike[0] if alike else METHODS[ROW_FORMATS[format].usual]
    moved = "" if section == method.section else f"name the rows in `data.{method.section}`"
    steps = ", ".join(filter(None, (*asked(loaded, method), moved)))
    yield f"{steps}: {method.name} learns from {format} rows" if steps else f"{method.name} learns from {format} rows"


def asked(loaded: LoadedRecipe, method: Method) -> Iterator[str]:
    """Yield what to change in a recipe so that it asks for the method; nothing where it leads to the method already."""
    task, named = loaded.recipe.goal.task, loaded.recipe.alignment.method
    keys = [f'`goal.task = "{method.task}"`'] * (task != method.task)
    keys += [f'`alignment.method = "{method.alignment}"`'] * (named not in (None, AUTO, method.alignment))
    if method.alignment or not named:
        yield from [f"set {' and '.join(keys)}"] * bool(keys)
        return
    yield from [f"set {keys[0]}"] * (task != method.task)
    yield "remove `alignment.method`"
