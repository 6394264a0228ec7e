"""Tell the format of training rows from their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

# Format -> the roles it needs, each with the column names that are understood without being told.
FORMATS: dict[str, dict[str, tuple[str, ...]]] = {
    "preference": {"chosen": ("chosen",), "rejected": ("rejected",)},
    "chat": {"messages": ("messages", "conversations", "conversation")},
    "instruction": {"instruction": ("instruction",), "output": ("output", "response")},
    "prompt-completion": {
        "prompt": ("prompt", "question", "query"),
        "completion": ("completion", "response", "answer"),
    },
    "text": {"text": ("text", "content")},
}
OPTIONAL: dict[str, dict[str, tuple[str, ...]]] = {
    "preference": {"prompt": ("prompt", "question", "query")},
    "instruction": {"input": ("input", "context")},
}


class UnknownFormat(Exception):
    """No format, or more than one, fits the rows: the message says what was seen."""


@dataclass(frozen=True, slots=True)
class DataShape:
    """The format of a source and what its columns hold."""

    format: str
    columns: Mapping[str, str]  # role -> column
    content: str  # strings | messages | from-value: what the answers are made of
    evidence: str

    @classmethod
    def described(cls, format: str, renamed: Mapping[str, str], evidence: str) -> DataShape:
        """The shape that a recipe states without the rows being seen; every role has its first usual name."""
        roles = FORMATS[format] | OPTIONAL.get(format, {})
        columns = {role: renamed.get(role, names[0]) for role, names in roles.items()}
        return cls(format, columns, "messages" if format == "chat" else "strings", evidence)

    @property
    def implicit_prompt(self) -> bool:
        """Preference rows whose prompt is the shared beginning of both conversations."""
        return self.format == "preference" and "prompt" not in self.columns


def recognise(rows: tuple[Row, ...], asked: str | None, renamed: Mapping[str, str], where: list[str]) -> DataShape:
    """The one format that all rows have; `asked` and `renamed` are the recipe's data.format and data.columns.

    `where` names each row for messages. Raises UnknownFormat.
    """
    found = [_format_of(row, asked, renamed) for row in rows]
    for place, format in zip(where, found, strict=True):
        if format is None:
            raise UnknownFormat(f"{place} has the columns {_names(rows[where.index(place)])}: {_wanted(asked)}")
        if format != found[0]:
            raise UnknownFormat(f"{where[0]} is {found[0]}, but {place} is {format}: one source must have one format")
    format, row = found[0], rows[0]
    assert format is not None
    columns = _columns(row, format, renamed, FORMATS) | _columns(row, format, renamed, OPTIONAL)
    contents = [_content(row, format, columns, place) for row, place in zip(rows, where, strict=True)]
    for place, content in zip(where, contents, strict=True):
        if content != contents[0]:
            raise UnknownFormat(f"{where[0]} has {contents[0]}, but {place} has {content}")
    shown = " and ".join(f"`{columns[role]}`" for role in FORMATS[format])
    return DataShape(format, columns, contents[0], f"{len(rows)} of {len(rows)} sampled rows have {shown}")


def _format_of(row: Row, asked: str | None, renamed: Mapping[str, str]) -> str | None:
    candidates = [asked] if asked else list(FORMATS)
    return next((format for format in candidates if _has(row, format, renamed)), None)


def _has(row: Row, format: str, renamed: Mapping[str, str]) -> bool:
    return len(_columns(row, format, renamed, FORMATS)) == len(FORMATS[format])


def _columns(row: Row, format: str, renamed: Mapping[str, str], table: Mapping) -> dict[str, str]:
    """Role -> column, for the roles of the format that the row has."""
    roles = table.get(format, {})
    named = {role: [renamed[role]] if role in renamed else names for role, names in roles.items()}
    found = {role: _first(names, row) for role, names in named.items()}
    return {role: name for role, name in found.items() if name is not None}


def _first(names: Any, row: Row) -> str | None:
    return next((name for name in names if name in row), None)


def _content(row: Row, format: str, columns: Mapping[str, str], place: str) -> str:
    """What the answer column holds: a string, role/content messages or from/value turns."""
    answer = {"preference": "chosen", "chat": "messages", "instruction": "output", "text": "text"}.get(
        format, "completion"
    )
    value = row[columns[answer]]
    if isinstance(value, str) and format != "chat":
        return "strings"
    if (
        isinstance(value, list)
        and value
        and all(isinstance(turn, dict) for turn in value)
        and format not in ("text", "instruction")
    ):
        if all({"role", "content"} <= turn.keys() for turn in value):
            return "messages"
        if format == "chat" and all({"from", "value"} <= turn.keys() for turn in value):
            return "from-value"
    raise UnknownFormat(f"{place}: `{columns[answer]}` holds neither text nor a list of messages with role and content")


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row) or "none"


def _wanted(asked: str | None) -> str:
    if asked:
        return f"{asked} needs {', '.join(f'`{role}`' for role in FORMATS[asked])} (data.columns can rename)"
    known = "; ".join(f"{format}: {' + '.join(roles)}" for format, roles in FORMATS.items())
    return f"no known format fits ({known}); name yours in data.columns"
