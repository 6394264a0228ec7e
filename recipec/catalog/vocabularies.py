"""Tokens that the tokenizers of a family are known to lack."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from pathlib import Path

from msgspec import Struct, convert

_FILE = Path(__file__).with_suffix(".toml")


class Lack(Struct, frozen=True, forbid_unknown_fields=True):
    """A token that the tokenizers of some families lack."""

    token: str
    families: tuple[str, ...]
    source: str
    checked: date


@cache
def lacks() -> tuple[Lack, ...]:
    """All that the catalog has; reads the file once in a process."""
    return convert(tomllib.loads(_FILE.read_text(encoding="utf-8"))["lacks"], tuple[Lack, ...])


def lack_of(family: str, token: str) -> Lack | None:
    """What says that the tokenizers of a family lack a token; None where nothing does."""
    return next((lack for lack in lacks() if lack.token == token and family in lack.families), None)
