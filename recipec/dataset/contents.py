"""What the columns of a row hold: strings, or conversations of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.axes import RowFormat
from recipec.axes.row_formats import FLAGS

Row = Mapping[str, Any]

# The two ways to write a message: the key of the speaker, the key of the text, the speakers that are understood.
_MESSAGES = ("role", "content", ("system", "user", "assistant"))
_FROM_VALUE = ("from", "value", ("system", "human", "user", "gpt", "assistant"))
ASSISTANT = ("assistant", "gpt")  # who gives the answers
_TOOL_KEYS, _TOOL_SPEAKERS = ("tool_calls", "function_call"), ("tool", "function")


NOTHING: tuple[Any, ...] = (None, "", [], {})  # values of a column or a field that say nothing


class BadContent(Exception):
    """A column holds something else than its format says: the message names the column."""


def content_of(row: Row, format: RowFormat, columns: Mapping[str, str]) -> str:
    """Return what the text of a row is: "strings", "messages" or "from-value". Raises BadContent.

    `columns` are those of the format, by role; what a row may leave out may also be null. Flags are no text.
    """
    used = {role: name for role, name in columns.items() if not format.may_lack(role) or row.get(name) is not None}
    kinds: dict[str, str] = {}
    for role, name in used.items():
        held = format.role(role).holds
        if held == FLAGS:
            continue
        kind = _kind(row[name], name)
        if kind not in held:
            raise BadContent(f"`{name}` holds {kind}, but {format.name} rows hold {' or '.join(held)} there")
        kinds[name] = kind
    first, kind = next(iter(kinds.items()))
    for name, other in kinds.items():
        if other != kind:
            raise BadContent(f"`{first}` holds {kind}, but `{name}` holds {other}")
    if format.implicit and format.implicit not in columns:
        _check_shared_beginning(row, [columns[role.name] for role in format.required], format.implicit, kind)
    return kind


def fields_of(value: Any) -> list[str]:
    """The fields that hold something in the messages of a column, beside who speaks and what is said."""
    turns = [turn for turn in value if isinstance(turn, dict)] if isinstance(value, list) else []
    return [
        name
        for turn in turns
        for name, held in turn.items()
        if held not in NOTHING and name not in (_FROM_VALUE if {"from", "value"} <= turn.keys() else _MESSAGES)[:2]
    ]


def is_flag(value: Any) -> bool:
    """Whether a value says yes or no: true, false, 1 or 0."""
    return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))


def _kind(value: Any, name: str) -> str:
    if isinstance(value, str):
        return "strings"
    if not isinstance(value, list):
        held = {bool: "true or false", int: "a number", float: "a number", dict: "an object"}.get(type(value), "null")
        raise BadContent(f"`{name}` holds {held}, neither text nor a list of messages")
    if not value:
        raise BadContent(f"`{name}` is an empty list")
    if not all(isinstance(turn, dict) for turn in value):
        raise BadContent(f"`{name}` is a list of something else than messages")
    if all({"from", "value"} <= turn.keys() for turn in value):
        return _checked("from-value", value, name, *_FROM_VALUE)
    return _checked("messages", value, name, *_MESSAGES)


def _checked(kind: str, turns: list[dict[str, Any]], name: str, speaker: str, text: str, known: tuple[str, ...]) -> str:
    for turn in turns:
        if any(turn.get(key) for key in _TOOL_KEYS) or turn.get(speaker) in _TOOL_SPEAKERS:
            advice = f"write calls and results as text of `{text}`, or remove the row"
            raise BadContent(f"`{name}` has a tool call or its result, which this version does not teach: {advice}")
        if not {speaker, text} <= turn.keys():
            raise BadContent(f"`{name}` has a message without `{speaker}` and `{text}`")
        if turn[speaker] not in known:
            listed = ", ".join(known)
            raise BadContent(f"`{name}` has a message with the {speaker} {turn[speaker]!r:.40}, not one of {listed}")
        if turn[text] is None:
            advice = "write what is said, or remove the row"
            raise BadContent(f"`{name}` has a message of the {turn[speaker]} whose `{text}` is null: {advice}")
        if not isinstance(turn[text], str):
            raise BadContent(f"`{name}` has a message whose `{text}` is not text")
    return kind


def _check_shared_beginning(row: Row, columns: list[str], implicit: str, kind: str) -> None:
    """Answers without a prompt of their own share one: everything but the last message."""
    names = " and ".join(f"`{name}`" for name in columns)
    if kind == "strings":
        raise BadContent(f"{names} hold strings without a column `{implicit}`")
    first, *others = (row[name] for name in columns)
    if len(first) < 2 or any(first[:-1] != other[:-1] for other in others):
        raise BadContent(
            f"{names} must be the same prompt with one more message each, or there must be a column `{implicit}`"
        )
