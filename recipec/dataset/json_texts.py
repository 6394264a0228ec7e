"""JSON that stands in a text of a row: arguments of calls and tools, held to what prepared rows can hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

from recipec.dataset.rows import MAX_DEPTH, once, parts_of, why, wrong_character


class BadJson(Exception):
    """What is wrong, as the end of a sentence that begins with what holds it."""


def json_of(text: str) -> Any:
    """What a text says as JSON. Raises BadJson."""
    try:
        value = json.loads(text, object_pairs_hook=once)
    except RecursionError as error:
        raise BadJson(f"lists or objects that nest more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        raise BadJson(f"a text that is no JSON ({why(error)}): {text!r:.60}") from error
    _check_whole(value)
    return value


def with_numbers(value: Any) -> Any:
    """The value, if prepared rows can hold its numbers: they have 64 bits. Raises BadJson."""
    for level in _levels(value):
        if odd := [number for number in level if not _fits(number)]:
            raise BadJson(f"the number {odd[0]!s:.40}, which 64 bits do not hold")
    return value


def _check_whole(value: Any) -> None:
    """Nothing nests deeper than rows may, and every character is one."""
    if len(list(_levels(value))) > MAX_DEPTH + 1:
        raise BadJson(f"lists or objects that nest more than {MAX_DEPTH} deep")
    if wrong := wrong_character(value):
        raise BadJson(wrong)


def _levels(value: Any) -> Iterator[list[Any]]:
    """What stands at each depth of a value, as far down as rows may nest and one level more."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 2):
        if level:
            yield level
        level = [part for one in level for part in parts_of(one)]


def _fits(value: Any) -> bool:
    """Whether every reader of the prepared rows can hold it, if it is a number."""
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64
