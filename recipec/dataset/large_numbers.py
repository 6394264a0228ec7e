"""Integers that jq 1.6 rounds when it reads them: what is said of commands for rows that hold some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recipec.dataset.contents import Row

_EXACT = 2**53  # up to here a float is every integer


def keeping_numbers(lines: Iterable[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield help lines, where rows hold large integers with the version of jq that keeps them."""
    large = next((number for row in rows for number in _integers(row) if abs(number) > _EXACT), None)
    for line in lines:
        rounded = large is not None and "`jq " in line.replace("| jq ", "`jq ")
        yield line + f" (with jq 1.7 or later: earlier ones round numbers such as {large})" * rounded


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping | list):
        for held in value.values() if isinstance(value, Mapping) else value:
            yield from _integers(held)
    elif type(value) is int:
        yield value
