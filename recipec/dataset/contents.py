"""What the columns of a row hold: strings, or conversations of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

# The two ways to write a message: the key of the speaker, the key of the text, the speakers that are understood.
_MESSAGES = ("role", "content", ("system", "user", "assistant"))
_FROM_VALUE = ("from", "value", ("system", "human", "user", "gpt", "assistant"))
_HELD: dict[str, tuple[str, ...]] = {
    "text": ("strings",),
    "instruction": ("strings",),
    "chat": ("messages", "from-value"),
    "prompt-completion": ("strings", "messages"),
    "preference": ("strings", "messages"),
}


_TOOL_KEYS, _TOOL_SPEAKERS = ("tool_calls", "function_call"), ("tool", "function")


class BadContent(Exception):
    """A column holds something else than its format says: the message names the column."""


def content_of(row: Row, format: str, columns: Mapping[str, str]) -> str:
    """Return what all columns of the row hold: "strings", "messages" or "from-value". Raises BadContent.

    `columns` are those of the format, by role; an `input` that is null is none.
    """
    used = [name for role, name in columns.items() if role != "input" or row.get(name) is not None]
    kinds = {name: _kind(row[name], name) for name in used}
    for name, kind in kinds.items():
        if kind not in _HELD[format]:
            raise BadContent(f"`{name}` holds {kind}, but {format} rows hold {' or '.join(_HELD[format])} there")
        if kind != kinds[used[0]]:
            raise BadContent(f"`{used[0]}` holds {kinds[used[0]]}, but `{name}` holds {kind}")
    if format == "preference" and "prompt" not in columns:
        _check_shared_prompt(row, columns, kinds[used[0]])
    return kinds[used[0]]


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


def _check_shared_prompt(row: Row, columns: Mapping[str, str], kind: str) -> None:
    """Pairs without a prompt of their own share one: everything but the last message."""
    chosen, rejected = row[columns["chosen"]], row[columns["rejected"]]
    if kind == "strings":
        raise BadContent(f"`{columns['chosen']}` and `{columns['rejected']}` hold strings without a column `prompt`")
    if len(chosen) < 2 or chosen[:-1] != rejected[:-1]:
        raise BadContent(
            f"`{columns['chosen']}` and `{columns['rejected']}` must be the same prompt with one more message each, "
            "or there must be a column `prompt`"
        )
