"""Which rows of the known-bad combinations depend on a part of a combination, read from their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from recipec.rules.combination import Combination
from recipec.rules.combinations import COMBINATIONS


def rows_that_read(part: str) -> tuple[str, ...]:
    """Return the ids of the rows that depend on a field of a combination, such as `loop` or `variant`."""
    return tuple(sorted(row.id for row in COMBINATIONS if part in _read(row.applies, set())))


def _read(function: Callable[..., Any], seen: set[Any]) -> set[str]:
    """The names in a function, and in the functions of its module and properties of a combination that it uses."""
    if not isinstance(function, FunctionType) or function in seen:
        return set()
    seen.add(function)
    names = {*_names(function.__code__)}
    used = [function.__globals__.get(name) for name in names]
    used += [
        found.fget for found in (getattr(Combination, name, None) for name in names) if isinstance(found, property)
    ]
    return names.union(*(_read(each, seen) for each in used))


def _names(code: CodeType) -> Iterator[str]:
    """The names that code and the functions within it use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
