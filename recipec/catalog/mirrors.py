"""Copies of the catalog's models: which model a name of another maker is the same as."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_suffix(".toml")


@cache
def mirrors() -> Mapping[str, str]:
    """Name of a copy -> name of its original; reads the file once in a process."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))["originals"]


def mirrored(name: str) -> tuple[str, str] | None:
    """The copy that is called `name`, whatever the case, as the Hub writes it, and its original; None if unknown."""
    return next((pair for pair in mirrors().items() if pair[0].lower() == name.lower()), None)
