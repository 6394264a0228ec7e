"""What the columns of a row hold: strings, or conversations of messages, and what messages carry beside their text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isinf, isnan
from typing import Any

from recipec.axes import CARRIED, RowFormat
from recipec.axes.row_formats import EITHER, FLAG_TEXTS, FLAGS, FROM_VALUE, IDS, MESSAGES, RATING_WORDS, TEXTS

Row = Mapping[str, Any]

# Who speaks in messages of `from` and `value` -> in the words of chat templates. Dumps of ShareGPT
# name the assistant after the product that answered (public converters of ShareGPT_V3, looked at on 2026-11-27).
SPEAKERS = {"system": "system", **dict.fromkeys(("human", "user"), "user")}
SPEAKERS |= dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant")
TOOL_SPEAKERS = {"function_call": "assistant", "observation": "tool", "tool": "tool"}  # where rows carry tools
ASSISTANT = ("assistant", "gpt", "function_call")  # who gives the answers
CALLS, RESULTS = "function_call", ("tool", "observation")  # speakers of messages that call tools, or answer for them
OF_RESULTS = ("tool_call_id", "name")  # fields of a result: the call that it answers, and the tool
_FLAGS = {text: wanted for pair in FLAG_TEXTS.values() for text, wanted in zip(pair, (True, False), strict=True)}
THOUGHT = "<think>", "</think>"  # around what is thought, where it stands before an answer in its text

NO_VALUE = "no value (null or NaN)"
NOTHING: tuple[Any, ...] = (None, "", [], {})  # values of a column or a field that say nothing


class BadContent(Exception):
    """A column holds something else than its format says: the message names the column; `help` says what to write."""

    help: tuple[str, ...] = ()

    def __init__(self, said: str, *help: str) -> None:
        super().__init__(said)
        self.help = help


class Unanswered(BadContent):
    """A conversation in which the assistant says nothing: preparation leaves the row out, and counts it."""


class Incomplete(BadContent):
    """A row lacks what its format needs: preparation leaves it out, and counts it, where the recipe says so."""


def is_blank(value: Any) -> bool:
    """Whether a value is none to split by."""
    return value is None or (isinstance(value, str) and not value.strip())


def lacking(row: Row, format: RowFormat, columns: Mapping[str, str], split_by: str = "") -> str:
    """What a row lacks that its format needs: a column, what a message says, a label that says anything; or "".

    A label that is a word of no pair, such as "unrated", says nothing. A number may be one of a scale, of which no
    label is known to be the good one: such rows are not incomplete but of another kind. A prompt that other rows have
    is lacking unless both answers may begin with it. Where rows are `split_by` a column, one without a value is, too.
    """
    needed = {role: columns.get(role.name, role.aliases[0]) for role in format.required}
    if format.implicit in columns and not _begin_alike(row, [*needed.values()], columns[format.implicit]):
        needed[format.role(format.implicit)] = columns[format.implicit]
    lost = {name: "" for name in needed.values() if row.get(name) is None}
    if split_by and is_blank(row.get(split_by)):
        lost[split_by] = ""
    if lost:
        return f"no {' and '.join(f'`{name}`' for name in lost)}"
    if mute := [said for name in needed.values() if (said := mute_message(row[name]))]:
        return mute[0]
    labels = (row[name] for role, name in needed.items() if role.holds == FLAGS)
    return next((_unsaid(label) for label in labels if _is_word(label)), "")


def _begin_alike(row: Row, answers: Sequence[str], asked: str) -> bool:
    """Whether a row says nothing in the column that asks, and its answers are conversations, which may ask."""
    return row.get(asked) is None and all(len(turns_of(row.get(name))) > 1 for name in answers)


def names_in(rows: Iterable[Row]) -> list[str]:
    """The columns that rows have, each once: some are not in every row."""
    return list(dict.fromkeys(name for row in rows for name in row))


def filled(rows: Sequence[Row]) -> Row:
    """The first row, and where it has no value the first that another row has in that column."""
    given = {name: [row[name] for row in rows if row.get(name) not in NOTHING] for name in rows[0]}
    return {name: next(iter(given[name]), value) for name, value in rows[0].items()}


def mute_message(turns: Any) -> str:
    """That one of the messages says nothing and calls no tool; "" of what is no list of messages, too."""
    said = {"role": "content", "from": "value"}
    for turn in turns if isinstance(turns, list) else ():
        fields = [text for speaker, text in said.items() if isinstance(turn, dict) and turn.get(speaker)]
        if fields and turn.get(fields[0]) is None and not (turn.get("tool_calls") or turn.get("function_call")):
            return f"a message without `{fields[0]}`"
    return ""


MOST_WORDS = 3  # that say of an answer that it is not rated, in one column: recipec's choice


def on_a_written_scale(rows: Sequence[Row], name: str) -> bool:
    """Whether a column rates with more than two numbers; texts that are numbers, as CSV has them, where its name says
    that it rates."""
    named = any(word in name.lower() for word in RATING_WORDS)
    said = [row[name] for row in rows if row.get(name) is not None]
    if all(type(value) in (int, float) for value in said):
        return len({*said}) > 2
    texts = {str(value) for value in said if value not in NOTHING} if named else ()
    return len(texts) > 2 and all(map(is_number, texts))


def rated_columns(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that hold a flag in some rows, and in the others nothing or a word, such as "unrated"."""
    return [name for name in names if _are_ratings([row.get(name) for row in rows])]


def _are_ratings(values: Sequence[Any]) -> bool:
    """Answers may be "Yes" or "good", too; but few are: ratings are a handful of words, and most of them flags."""
    said = [value for value in values if value is not None]
    flags = [value for value in said if flag_of(value) is not None]
    words = [value for value in said if flag_of(value) is None]
    return 2 * len(flags) > len(said) and all(map(_is_word, words)) and len({*words}) <= MOST_WORDS


def _unsaid(label: str) -> str:
    return f"the label {json.dumps(label.strip(), ensure_ascii=False):.40}"


def _is_word(label: Any) -> bool:
    """Whether a label is a text that is neither one of FLAG_TEXTS nor a number."""
    return isinstance(label, str) and flag_of(label) is None and not is_number(label)


def is_number(value: Any) -> bool:
    """Whether a value is a number, or a text that says one, as CSV has them; NaN is none."""
    number = number_of(value)
    return number is not None and not isnan(number)


def number_of(value: Any) -> float | None:
    """The number, which may be NaN; None of what is none, and of one that no float holds."""
    if type(value) not in (int, float, str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if isinf(number) else number


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
    return (message.get("reasoning_content") or parted(message["content"])[0]).strip()


def parted(text: str) -> tuple[str, str]:
    """What is thought between the tags that an answer begins with, and what it says; an answer may only speak of tags.

    Its twin is in templates/data/rendered.py.j2.
    """
    thought, end, said = text.lstrip().partition(THOUGHT[1])
    return (thought.removeprefix(THOUGHT[0]), said) if end and thought.startswith(THOUGHT[0]) else ("", text)


def flag_of(value: Any) -> bool | None:
    """What a text of FLAG_TEXTS says, or true, false, 1 or 0 that is none. None for any other value."""
    return _FLAGS.get(flag_text(value))


def flag_text(value: Any) -> str:
    """A flag as FLAG_TEXTS has it; "" for what is no flag."""
    return str(value).strip().lower() if isinstance(value, int | float | str) else ""


def _kind(value: Any, name: str) -> str:
    if isinstance(value, str):
        return TEXTS
    if not isinstance(value, list):
        held = {bool: "true or false", int: "a number", float: "a number", dict: "an object", type(None): NO_VALUE}.get(
            type(value), f"a value of the type {type(value).__name__}"
        )
        help = (f'where a row has no `{name}`, write "": rows with an empty answer are left out and counted',)
        raise BadContent(f"`{name}` holds {held}, neither text nor a list of messages", *help * (value is None))
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
