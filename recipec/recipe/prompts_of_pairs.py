"""The prompts of a method whose judge learns from pairs: those of the pairs, where the recipe names no others."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from recipec.axes import METHODS, Method, methods_of
from recipec.axes.method import REWARDS
from recipec.recipe.document import Document, asked_method, value_at

_OF_PAIRS = ("format", "columns")  # what a source says of its rows; of the columns only the prompt's is kept


def with_prompts_of_pairs(document: Document) -> Document:
    """The document with the section of the prompts, which has the sources of the pairs and their places.

    It is unchanged where the recipe has prompts of its own, names a reward, or asks for a method without a judge.
    """
    method = _judged(document.data)
    if method is None:
        return document
    pairs, prompts = METHODS[method.judge].section, method.section
    data, held = document.data["data"], document.data["data"].get(pairs)
    if held is None or prompts in data or value_at(document.data, ("alignment", REWARDS)) is not None:
        return document
    places = {("data", prompts, *path[2:]): at for path, at in document.places.items() if path[:2] == ("data", pairs)}
    sections = {**data, prompts: _asked(held)}
    return replace(document, data={**document.data, "data": sections}, places={**document.places, **places})


def pairs_asked(document: Document, section: str) -> str:
    """The section of the pairs whose prompts a section has; "" where its rows are its own."""
    method = _judged(document.data)
    if method is None or section != method.section:
        return ""
    pairs = METHODS[method.judge].section
    own, theirs = (document.places.get(("data", name)) for name in (section, pairs))
    return pairs if own == theirs else ""


def _judged(data: dict[str, Any]) -> Method | None:
    """The method that the recipe asks for, where its judge is trained; None also where tables are none."""
    goal, alignment = data.get("goal"), data.get("alignment")
    if not all(isinstance(table, dict) for table in (goal, alignment, data.get("data"))):
        return None
    named = asked_method(alignment)
    rows = (row for row in methods_of(goal.get("task", "")) if row.judge and row.alignment == named)
    return next(rows, None)


def _asked(held: Any) -> Any:
    """Sources without what they say of the answers."""
    if isinstance(held, list):
        return [_asked(source) for source in held]
    if not isinstance(held, dict):
        return held
    columns = held.get("columns")
    kept = {name: value for name, value in held.items() if name not in _OF_PAIRS}
    prompt = columns.get("prompt") if isinstance(columns, dict) else None
    return {**kept, "columns": {"prompt": prompt}} if prompt else kept
