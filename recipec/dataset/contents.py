"""What the columns of a row hold: strings, or conversations of messages, and what messages carry beside their text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from recipec.axes import CARRIED, KINDS, RowFormat
from recipec.axes.row_formats import EITHER, FLAGS, FROM_VALUE, IDS, MESSAGES, TEXTS
from recipec.dataset.rows import MAX_DEPTH, once, parts_of

Row = Mapping[str, Any]

# The two ways to write a message: the key of the speaker, the key of the text, the speakers that are understood.
_MESSAGES = ("role", "content", ("system", "user", "assistant", "tool"))
_FROM_VALUE = ("from", "value", ("system", "human", "user", "gpt", "assistant", "function_call", "observation", "tool"))
ASSISTANT = ("assistant", "gpt", "function_call")  # who gives the answers
CALLS, RESULTS = "function_call", ("tool", "observation")  # speakers of messages that call tools, or answer for them
_OF_CALLS = {"id", "type", "index", "name", "arguments"}
_AROUND_CALLS = {"id", "type", "index", "function"}
_OF_RESULTS = ("tool_call_id", "name")  # fields of a result: the call that it answers, and the tool
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
THOUGHT = "<think>", "</think>"  # around what is thought, where it stands before an answer in its text

NOTHING: tuple[Any, ...] = (None, "", [], {})  # values of a column or a field that say nothing


class BadContent(Exception):
    """A column holds something else than its format says: the message names the column."""


_WORDS = {FROM_VALUE: "messages with `from` and `value`", IDS: "lists of token ids"}


def _unlike(name: str, value: Any, kind: str, held: Sequence[str], format: RowFormat) -> str:
    """What a column holds, and what rows of the format hold there; a list that is written as text is told."""
    wanted = " or ".join(_WORDS.get(one, one) for one in held)
    said = f"`{name}` holds {_WORDS.get(kind, kind)}, but {format.name} rows hold {wanted} there"
    if kind == TEXTS and str(value).lstrip()[:1] in ("[", "{"):
        return f"{said}: a list that is written as text, as in CSV, is not read; write the rows as JSON lines"
    return said


def content_of(row: Row, format: RowFormat, columns: Mapping[str, str]) -> str:
    """Return what the columns of a row hold: TEXTS, MESSAGES, EITHER of them, FROM_VALUE or IDS. Raises BadContent.

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
            raise BadContent(_unlike(name, row[name], kind, held, format))
        kinds[name] = kind
    first, kind = next(iter(kinds.items()))
    if kind == IDS:
        _check_labels(row, columns)
    if format.wraps:
        taught = KINDS[format.kind].taught
        for name in (name for role, name in used.items() if format.role(role).becomes in taught):
            _check_answer(row, name, row.get(columns.get("prompt", "")))
    if format.wraps and {*kinds.values()} == {TEXTS, MESSAGES}:
        return EITHER
    for name, other in kinds.items():
        if other != kind:
            raise BadContent(f"`{first}` holds {kind}, but `{name}` holds {other}")
    if format.implicit and format.implicit not in columns:
        _check_shared_beginning(row, [columns[role.name] for role in format.required], format.implicit, kind)
    return kind


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
    speaker, text, _ = _FROM_VALUE if {"from", "value"} <= turn.keys() else _MESSAGES
    return (speaker, text, *(_OF_RESULTS if turn.get(speaker) in RESULTS else ()))


def turns_of(value: Any) -> list[dict[str, Any]]:
    """The messages of a column; none where it holds something else."""
    return [turn for turn in value if isinstance(turn, dict)] if isinstance(value, list) else []


def carried(rows: Iterable[Row], format: RowFormat, columns: Sequence[str]) -> list[str]:
    """Names of CARRIED that the format takes and a row has, in the order of the table."""
    found = {name for row in rows for name in _carried(row, columns)}
    return [name for name in CARRIED if name in found and name in format.carries]


def _carried(row: Row, columns: Sequence[str]) -> Iterator[str]:
    turns = [turn for column in columns for turn in turns_of(row.get(column))]
    said = {name for turn in turns for name, value in turn.items() if value not in NOTHING}
    for carried in CARRIED.values():
        held = (name for name in carried.columns if name not in columns and row.get(name) not in NOTHING)
        if any(held) or any(name in said for name in carried.fields):
            yield carried.name
    if any(turn.get("role", turn.get("from")) in (CALLS, *RESULTS) for turn in turns):
        yield "tools"
    if any(isinstance(turn.get("content"), list) for turn in turns):
        yield "parts"


def thoughts(turn: Mapping[str, Any]) -> str:
    """What the assistant thinks before the answer, in a field of its own or between tags; "" where nothing is said."""
    own = next((turn[name] for name in CARRIED["reasoning"].fields if turn.get(name) not in NOTHING), "")
    text = turn.get("content", turn.get("value"))
    if own or not isinstance(text, str):
        return str(own)
    return text.rpartition(THOUGHT[1])[0].replace(THOUGHT[0], "").strip()  # some models' texts lack the first tag


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
    if all(isinstance(part, int) and not isinstance(part, bool) for part in value):
        return IDS
    if not all(isinstance(turn, dict) for turn in value):
        raise BadContent(f"`{name}` is a list of something else than messages")
    if all({"from", "value"} <= turn.keys() for turn in value):
        return _checked(FROM_VALUE, value, name, *_FROM_VALUE)
    return _checked(MESSAGES, value, name, *_MESSAGES)


def _checked(kind: str, turns: list[dict[str, Any]], name: str, speaker: str, text: str, known: tuple[str, ...]) -> str:
    for turn in turns:
        if speaker not in turn or not (text in turn or turn.get("tool_calls")):
            seen = ", ".join(f"`{field}`" for field in turn) or "none"
            raise BadContent(f"`{name}` has a message without `{speaker}` and `{text}`: its fields are {seen}")
        if turn[speaker] not in known:
            listed = ", ".join(known)
            raise BadContent(f"`{name}` has a message with the {speaker} {turn[speaker]!r:.40}, not one of {listed}")
        _check_calls(turn, name, text if turn[speaker] == CALLS else "tool_calls")
        _check_text(turn.get(text), turn, name, speaker, text)
    return kind


def _check_text(said: Any, turn: Mapping[str, Any], name: str, speaker: str, text: str) -> None:
    """What is said is text or a list of texts; nothing need be said where a tool is called."""
    if said is None and not turn.get("tool_calls"):
        advice = "write what is said, or remove the row"
        raise BadContent(f"`{name}` has a message of the {turn[speaker]} whose `{text}` is null: {advice}")
    if not isinstance(said, str | list | None):
        raise BadContent(f"`{name}` has a message whose `{text}` is not text")
    for part in said if isinstance(said, list) else ():
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            shown = part.get("type") if isinstance(part, dict) else part
            raise BadContent(f"`{name}` has a message with a part that is no text: {shown!r:.40}")
        _check_fields(part, {"type", "text"}, name, "part")


def _check_calls(turn: Mapping[str, Any], name: str, field: str) -> None:
    """Calls of tools have a name, and arguments by name."""
    calls = turn.get(field)
    if field != "tool_calls":
        calls = read_json(calls)
        calls = calls if isinstance(calls, list) else [calls]
    if not isinstance(calls, list | None):
        raise BadContent(f"`{name}` has a message whose `{field}` is no list of calls")
    for call in calls or ():
        function = call.get("function", call) if isinstance(call, dict) else {}
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadContent(f"`{name}` has a call without the name of a tool: {json.dumps(call):.60}")
        _check_fields(function, {"name", "arguments"} if "function" in call else _OF_CALLS, name, "call")
        _check_fields(call, _OF_CALLS if "function" not in call else _AROUND_CALLS, name, "call")
        if call.get("type") not in (None, "function"):
            raise BadContent(f"`{name}` has a call of the type {call['type']!r:.40}, not function")
        _check_arguments(function.get("arguments"), name)


def _check_arguments(given: Any, name: str) -> None:
    """An object, or its text, without what the prepared rows could not hold."""
    arguments = read_json(given or {})
    if not isinstance(arguments, dict):
        raise BadContent(f"`{name}` has a call whose arguments are no object: {json.dumps(given):.60}")
    level: list[Any] = [arguments]
    for _ in range(MAX_DEPTH + 1):
        if odd := [str(number) for number in level if not _fits(number)]:
            raise BadContent(f"`{name}` has a call with the number {odd[0]:.40}, which 64 bits do not hold")
        level = [part for value in level for part in parts_of(value)]
    if level:
        raise BadContent(f"`{name}` has a call whose arguments nest more than {MAX_DEPTH} deep")


def _fits(value: Any) -> bool:
    """Whether every reader of the prepared rows can hold it, if it is a number."""
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def _check_fields(value: Mapping[str, Any], known: set[str], name: str, what: str) -> None:
    """Nothing that is said in a part or a call is lost."""
    if lost := [field for field, held in value.items() if field not in known and held not in NOTHING]:
        raise BadContent(f"`{name}` has a {what} with `{lost[0]}`, which nothing reads")


def read_json(value: Any) -> Any:
    """What a text says as JSON; None where it is none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None


def _check_labels(row: Row, columns: Mapping[str, str]) -> None:
    """A label is the token at its place, or -100 where nothing is learned."""
    ids, labels = (row.get(columns.get(role, "")) for role in ("input_ids", "labels"))
    if odd := [token for token in ids if not 0 <= token < 2**31]:
        raise BadContent(f"`{columns['input_ids']}` holds {odd[0]}, which is no token")
    fit = labels is None or (
        len(labels) == len(ids) and all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
    )
    if not fit:
        raise BadContent(f"`{columns['labels']}` must hold the token at each place, or -100 where none is learned")
    if (mask := row.get(columns.get("attention_mask", ""))) is not None:
        _check_mask(mask, ids, labels, columns["attention_mask"])


def _check_mask(mask: list[int], ids: list[int], labels: list[int] | None, column: str) -> None:
    """A mask is 1 at each place, but 0 at padding: one token at the ends of a row, which is not learned."""
    if len(mask) != len(ids) or not {0, 1}.issuperset(mask) or 1 not in mask:
        raise BadContent(f"`{column}` must be 1 at each place, or 0 where padding is")
    start, end = mask.index(1), len(mask) - mask[::-1].index(1)
    padding, learned = {*ids[:start], *ids[end:]}, {*labels[:start], *labels[end:]} if labels else set()
    if 0 in mask[start:end] or len(padding) > 1 or learned - {-100}:
        raise BadContent(f"`{column}` hides tokens that are no padding: they would be seen, or learned")


def _check_answer(row: Row, name: str, prompt: Any) -> None:
    """Behind the prompt, which its column may repeat, an answer is what the assistant says, and nothing else."""
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if asked is None or isinstance(row[name], str):
        return  # answers that share their prompt are another matter
    told = row[name][len(asked) :] if row[name][: len(asked)] == asked else row[name]
    if told and told[0]["role"] != ASSISTANT[0]:
        raise BadContent(f"`{name}` neither begins with the assistant's answer nor repeats the prompt")
    if any(turn["role"] != ASSISTANT[0] for turn in told):
        raise BadContent(f"`{name}` holds what others say behind an answer, which would be learned")


def _check_shared_beginning(row: Row, columns: list[str], implicit: str, kind: str) -> None:
    """Answers without a prompt of their own share one: everything but the last message."""
    names = " and ".join(f"`{name}`" for name in columns)
    if kind == TEXTS:
        raise BadContent(f"{names} hold strings without a column `{implicit}`")
    first, *others = (row[name] for name in columns)
    if len(first) < 2 or any(first[:-1] != other[:-1] for other in others):
        raise BadContent(
            f"{names} must be the same prompt with one more message each, or there must be a column `{implicit}`"
        )
