"""What the columns of a row hold: strings, or conversations of messages, and what messages carry beside their text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from recipec.axes import CARRIED, RowFormat
from recipec.axes.row_formats import EITHER, FLAGS, FROM_VALUE, IDS, MESSAGES, TEXTS

Row = Mapping[str, Any]

# Who speaks in messages of `from` and `value` -> in the words of chat templates. Dumps of ShareGPT
# name the assistant after the product that answered (public converters of ShareGPT_V3, looked at on 2026-11-27).
SPEAKERS = {"system": "system", **dict.fromkeys(("human", "user"), "user")}
SPEAKERS |= dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant")
TOOL_SPEAKERS = {"function_call": "assistant", "observation": "tool", "tool": "tool"}  # where rows carry tools
ASSISTANT = ("assistant", "gpt", "function_call")  # who gives the answers
CALLS, RESULTS = "function_call", ("tool", "observation")  # speakers of messages that call tools, or answer for them
OF_RESULTS = ("tool_call_id", "name")  # fields of a result: the call that it answers, and the tool
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
THOUGHT = "<think>", "</think>"  # around what is thought, where it stands before an answer in its text

NOTHING: tuple[Any, ...] = (None, "", [], {})  # values of a column or a field that say nothing


class BadContent(Exception):
    """A column holds something else than its format says: the message names the column."""


class Unanswered(BadContent):
    """A conversation in which the assistant says nothing: preparation leaves the row out, and counts it."""


_WORDS = {FROM_VALUE: "messages with `from` and `value`", IDS: "lists of token ids"}


def _unlike(name: str, value: Any, kind: str, held: Sequence[str], format: RowFormat) -> str:
    """What a column holds, and what rows of the format hold there; a list that is written as text is told."""
    wanted = " or ".join(_WORDS.get(one, one) for one in held)
    said = f"`{name}` holds {_WORDS.get(kind, kind)}, but {format.name} rows hold {wanted} there"
    if kind == TEXTS and str(value).lstrip()[:1] in ("[", "{"):
        return f"{said}: a list that is written as text, as in CSV, is not read; write the rows as JSON lines"
    return said


def written_in(content: str) -> tuple[str, str]:
    """The fields of a message that say who speaks, and what is said."""
    return ("from", "value") if content == FROM_VALUE else ("role", "content")


def content_of(row: Row, format: RowFormat, columns: Mapping[str, str]) -> str:
    """Return what the columns of a row hold: TEXTS, MESSAGES, EITHER of them, FROM_VALUE or IDS. Raises BadContent.

    `columns` are those of the format, by role; what a row may leave out may also be null. Flags are no text. Whether
    what they hold can be read is another matter: conversion.py.
    """
    kinds: dict[str, str] = {}
    for role, name in _used(row, format, columns).items():
        held = format.role(role).holds
        if row[name] == [] and not format.answers:  # a conversation
            raise Unanswered(f"`{name}` is an empty list")
        kind = _kind(row[name], name)
        if kind not in held:
            raise BadContent(_unlike(name, row[name], kind, held, format))
        kinds[name] = kind
    first, kind = next(iter(kinds.items()))
    if format.wraps and {*kinds.values()} == {TEXTS, MESSAGES}:
        return EITHER
    for name, other in kinds.items():
        if other != kind:
            raise BadContent(f"`{first}` holds {kind}, but `{name}` holds {other}")
    if kind == TEXTS and format.implicit and format.implicit not in columns:
        names = " and ".join(f"`{name}`" for name in kinds)
        raise BadContent(f"{names} hold strings without a column `{format.implicit}`")
    return kind


def _used(row: Row, format: RowFormat, columns: Mapping[str, str]) -> dict[str, str]:
    """Role -> column of what tells how a row is written: no flags, and nothing that the row leaves out."""
    return {
        role: name
        for role, name in columns.items()
        if format.role(role).holds != FLAGS
        and not (format.may_lack(role) and row.get(name) is None)
        and not (format.implicit == role and row.get(name) in NOTHING)
    }


def fields_of(value: Any) -> list[str]:
    """The fields that hold something in the messages of a column, beside who speaks and what is said."""
    return [
        name
        for turn in turns_of(value)
        for name, held in turn.items()
        if held not in NOTHING and name not in _own_fields(turn)
    ]


def _own_fields(turn: Mapping[str, Any]) -> tuple[str, ...]:
    """Who speaks, what is said, and of the result of a call, of which."""
    speaker, text = written_in(style_of(turn))
    return (speaker, text, *(OF_RESULTS if turn.get(speaker) in RESULTS else ()))


def turns_of(value: Any) -> list[dict[str, Any]]:
    """The messages of a column; none where it holds something else."""
    return [turn for turn in value if isinstance(turn, dict)] if isinstance(value, list) else []


def carried(rows: Iterable[Row], format: RowFormat, columns: Sequence[str], ignored: Collection[str] = ()) -> list[str]:
    """Names of CARRIED that the format takes and a row has, in the order of the table; not by what is `ignored`."""
    found = {name for row in rows for name in _carried(row, {*columns}, {*ignored})}
    return [name for name in CARRIED if name in found and name in format.carries]


def _carried(row: Row, columns: set[str], ignored: set[str]) -> Iterator[str]:
    turns = [turn for column in columns for turn in turns_of(row.get(column))]
    said = {name for turn in turns for name, value in turn.items() if value not in NOTHING} - ignored
    beside = {name for carried in CARRIED.values() for name in carried.columns} - columns - ignored
    held = {name for name in beside if row.get(name) not in NOTHING}
    for carried in CARRIED.values():
        if not held.isdisjoint(carried.columns) or not said.isdisjoint(carried.fields):
            yield carried.name
    if any(turn.get("role", turn.get("from")) in (CALLS, *RESULTS) for turn in turns):
        yield "tools"
    if any(isinstance(turn.get("content", turn.get("value")), list) for turn in turns):
        yield "parts"


def thoughts(message: Mapping[str, Any]) -> str:
    """What is thought before an answer, in a field of its own or between tags; "" where nothing is."""
    before, _, _ = message["content"].rpartition(THOUGHT[1])  # some models' texts lack the first tag
    return (message.get("reasoning_content") or before.replace(THOUGHT[0], "")).strip()


def flag_of(value: Any) -> bool | None:
    """What true, false, 1 or 0 say, also as texts: CSV files hold nothing else. None for any other value."""
    return _FLAGS.get(str(value).strip().lower()) if isinstance(value, int | str) else None


def _kind(value: Any, name: str) -> str:
    if isinstance(value, str):
        return TEXTS
    if not isinstance(value, list):
        held = {bool: "true or false", int: "a number", float: "a number", dict: "an object", type(None): "null"}.get(
            type(value), f"a value of the type {type(value).__name__}"
        )
        raise BadContent(f"`{name}` holds {held}, neither text nor a list of messages")
    if not value:
        raise BadContent(f"`{name}` is an empty list")
    if all(type(part) is int for part in value):
        return IDS
    if not all(isinstance(turn, dict) for turn in value):
        raise BadContent(f"`{name}` is a list of something else than messages")
    return FROM_VALUE if all(style_of(turn) == FROM_VALUE for turn in value) else MESSAGES


def style_of(turn: Mapping[str, Any]) -> str:
    """How a message is written: MESSAGES or FROM_VALUE."""
    return FROM_VALUE if "from" in turn and ("value" in turn or "role" not in turn) else MESSAGES
