"""Frequent slips in writing a number or a truth value: in quotes, with a unit, or a whole number as 4.0."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

_NUMBERS = {"int_type", "float_type"}  # of pydantic
_NUMBER = re.compile(r"[-+]?[0-9][0-9_.]*(e-?[0-9]+)?")
_WITH_UNIT = re.compile(r"\$?([0-9][0-9_,]*(?:\.[0-9]+)?) ?([a-z/]*|%)")
# What a number in quotes may end with -> what one of it is in the unit of the key, which is GiB, Gbit/s, hours or USD.
_UNITS = {"%": 0.01, "k": 1e3, "m": 1e6, **dict.fromkeys(("", "g", "gb", "gib", "gbps", "gbit/s", "h", "hours"), 1)}


def slip(value: Any, kinds: Collection[str]) -> str:
    """How to write the value, where it is a slip; "" where it is another mistake. `kinds` are pydantic's faults."""
    if isinstance(value, float) and value.is_integer() and "int_type" in kinds:
        return f"write it without a fraction: {int(value)}"
    if not isinstance(value, str):
        return ""
    if "bool_type" in kinds and value.lower() in ("true", "false"):
        return f"write it without quotes: {value.lower()}"
    if _NUMBERS.isdisjoint(kinds):
        return ""
    if _NUMBER.fullmatch(value):
        return f"write it without quotes: {value}"
    alone = _without_unit(value)
    return f"write the number alone, without quotes: {alone}" if alone else ""


def _without_unit(text: str) -> str:
    """The number that a text with a unit stands for: 0.03 of "3%", 2000 of "2k", 24 of "24GB"; "" of another text."""
    found = _WITH_UNIT.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        return ""
    return f"{float(found[1].replace(',', '').replace('_', '')) * _UNITS[found[2]]:.12g}"
