"""Tell the format of training rows from their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recipec.dataset.contents import BadContent, Row, content_of

MOST_NAMES = 12  # columns that a message lists

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
    content: str  # strings | messages | from-value: what the columns hold
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
    format = _common_format(rows, asked, renamed, where)
    columns = _common_columns(rows, format, renamed, where)
    content = _common_content(rows, format, columns, where)
    shown = " and ".join(f"`{columns[role]}`" for role in FORMATS[format])
    return DataShape(format, columns, content, f"{len(rows)} of {len(rows)} sampled rows have {shown}")


def _common_format(rows: tuple[Row, ...], asked: str | None, renamed: Mapping[str, str], where: list[str]) -> str:
    found = [_format_of(row, asked, renamed) for row in rows]
    for row, place, format in zip(rows, where, found, strict=True):
        if format is None:
            raise UnknownFormat(f"{place} has the columns {_names(row)}: {_wanted(asked, renamed)}")
        if format != found[0]:
            raise UnknownFormat(f"{where[0]} is {found[0]}, but {place} is {format}: one source must have one format")
    assert found[0] is not None
    return found[0]


def _common_columns(rows: tuple[Row, ...], format: str, renamed: Mapping[str, str], where: list[str]) -> dict[str, str]:
    """Role -> column, the same in every row; a row may leave out the `input` that another one has."""
    found = [_columns(row, format, renamed, FORMATS) | _columns(row, format, renamed, OPTIONAL) for row in rows]
    common = {role: name for columns in reversed(found) for role, name in columns.items()}
    for columns, place in zip(found, where, strict=True):
        for role, name in common.items():
            if role != "input" and columns.get(role) != name:
                other = f"`{columns[role]}`" if role in columns else "no such column"
                raise UnknownFormat(f"the {role} is in `{name}`, but {place} has {other}: one source must have one")
    return common


def _common_content(rows: tuple[Row, ...], format: str, columns: Mapping[str, str], where: list[str]) -> str:
    contents = [_content(row, format, columns, place) for row, place in zip(rows, where, strict=True)]
    for place, content in zip(where, contents, strict=True):
        if content != contents[0]:
            raise UnknownFormat(f"{where[0]} has {contents[0]}, but {place} has {content}")
    return contents[0]


def _content(row: Row, format: str, columns: Mapping[str, str], place: str) -> str:
    try:
        return content_of(row, format, columns)
    except BadContent as error:
        raise UnknownFormat(f"{place}: {error}") from error


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


def _names(row: Row) -> str:
    listed = ", ".join(f"`{name}`" for name in list(row)[:MOST_NAMES]) or "none"
    return f"{listed}, …" if len(row) > MOST_NAMES else listed


def _wanted(asked: str | None, renamed: Mapping[str, str]) -> str:
    if asked:
        needed = ", ".join(f"`{renamed.get(role, role)}`" for role in FORMATS[asked])
        return f"{asked} needs {needed} (data.columns can rename)"
    known = "; ".join(f"{format}: {' + '.join(roles)}" for format, roles in FORMATS.items())
    return f"no known format fits ({known}); name yours in data.columns"
