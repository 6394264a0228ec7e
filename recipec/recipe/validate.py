"""Check a document against the schema and say in plain words what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from recipec.diagnostics.model import Report
from recipec.recipe.document import Document
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema import Recipe
from recipec.recipe.wording import Problem, diagnose
from recipec.recipe.written import Written, value_at


def validate(document: Document, report: Report) -> tuple[Recipe | None, Written]:
    """Return the recipe, None when it has errors (E02xx), and what it says without the values that have errors."""
    try:
        return Recipe.model_validate(document.data), Written(document.data, document)
    except ValidationError as error:
        problems = _problems(document.data, error.errors(include_url=False, include_input=False))
    for problem in sorted(problems, key=lambda problem: _order(problem, document)):
        report.add(diagnose(problem, document))
    return None, Written(_without(document.data, {problem.path for problem in problems}), document)


def _problems(data: dict[str, Any], errors: Iterable[Any]) -> list[Problem]:
    """Gather pydantic's errors by the place in the document that they speak of.

    An entry that may have one of several forms gives one error for each; an error further inside it is the one that
    tells what is wrong.
    """
    found: dict[KeyPath, Problem] = {}
    for error in errors:
        path = _document_path(data, error["loc"], error["type"])
        problem = found.setdefault(path, Problem(path, value_at(data, path)))
        problem.faults.append((error["type"], error.get("ctx", {})))
        problem.at_key |= error["loc"][-1] == "[key]"
    return [p for p in found.values() if not any(_inside(other, p.path) for other in found)]


def _document_path(data: Any, loc: KeyPath, kind: str) -> KeyPath:
    """Drop from pydantic's location what is not in the document: the names of union members, positions we added."""
    if kind == "missing":
        return loc
    path: KeyPath = ()
    for part in loc:
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            path, data = (*path, part), data[part]
    return path


def _inside(path: KeyPath, outer: KeyPath) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _order(problem: Problem, document: Document) -> tuple[bool, tuple[int, ...]]:
    """Sort by where the reader finds it: this file before those it extends, then by line."""
    place = problem.place(document)
    return place.file != document.source.shown, place.span


def _without(data: Any, refused: set[KeyPath], path: KeyPath = ()) -> Any:
    """Copy `data` leaving out the refused paths; a list that holds one is left out whole."""
    if isinstance(data, dict):
        kept = {key: value for key, value in data.items() if not _touched((*path, key), value, refused)}
        return {key: _without(value, refused, (*path, key)) for key, value in kept.items()}
    return data


def _touched(path: KeyPath, value: Any, refused: set[KeyPath]) -> bool:
    return path in refused or (isinstance(value, list) and any(_inside(other, path) for other in refused))
