"""Columns that no format knows by name: which readings of them `recipec init` proposes, and how one is stated."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence

from recipec.cli.init_data import advice_for, look, reads_all

Columns = dict[str, str]  # role -> column

_LINE = re.compile(r"`(columns = \{.*\})`")  # of a recipe, as the help of an unknown format has it
_PLAIN = re.compile(r"[^\s,={}\"`]+")


def readings(data: str, task: str = "") -> list[Columns]:
    """The columns with which rows of no known format would have one, or prompts their answers, as the advice says.

    Where the task is known, it is a format that the task learns from, if the rows may have one.
    """
    from recipec.dataset import UnknownFormat, Unreadable

    try:
        lines = look(data).answered
    except UnknownFormat as error:
        lines = [*advice_for(task, data)] or error.help
    except (Unreadable, OSError, ValueError):
        return []
    advised = [columns for columns in _advised(lines) if reads_all(data, columns)]
    return [columns for place, columns in enumerate(advised) if columns not in advised[:place]]


def _advised(help: Sequence[str]) -> Iterator[Columns]:
    for line in help:
        if found := _LINE.search(line):
            yield tomllib.loads(found[1])["columns"]


def misread(data: str, columns: Mapping[str, str]) -> str:
    """Why the rows have no format with these columns; "" where they have one."""
    from recipec.dataset import UnknownFormat

    try:
        look(data, columns)
    except UnknownFormat as error:
        return str(error)
    return ""


def parsed(text: str) -> Columns:
    """The columns that "prompt=question, completion=answer" names, or an inline table of TOML. Raises ValueError."""
    from recipec.axes import ROW_FORMATS
    from recipec.characters import forbidden_in_name, why_forbidden

    pairs = [pair.partition("=") for pair in text.split(",")]
    columns = {role.strip(): name.strip() for role, _, name in pairs}
    if text.lstrip().startswith("{"):
        columns = tomllib.loads(f"columns = {text}")["columns"]
    roles = dict.fromkeys(role.name for row in ROW_FORMATS.values() for role in row.roles)
    if unknown := [role for role in columns if role not in roles]:
        raise ValueError(f"`{unknown[0]}` is not one of {', '.join(roles)}")
    if not all(isinstance(name, str) and name for name in columns.values()):
        raise ValueError("write it as prompt=question,completion=answer, with the names that your columns have")
    for mark in filter(None, map(forbidden_in_name, columns.values())):
        raise ValueError(
            f"a recipe names no column with U+{ord(mark):04X}: {why_forbidden(mark)}; rename it in the rows"
        )
    return columns


def stated(columns: Mapping[str, str]) -> str:
    """The value of the flag that names these columns."""
    if all(_PLAIN.fullmatch(name) for name in columns.values()):
        return ",".join(f"{role}={name}" for role, name in columns.items())
    return table(columns)


def table(columns: Mapping[str, str]) -> str:
    """The value of data.columns."""
    return f"{{ {', '.join(f'{role} = {json.dumps(name, ensure_ascii=False)}' for role, name in columns.items())} }}"
