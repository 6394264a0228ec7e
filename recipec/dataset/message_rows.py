"""Rows that are single messages of conversations, which an id holds together: which columns say what, and whose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import PROMPTS, TEXT
from recipec.dataset.column_names import asks, orders, speaks, words_of
from recipec.dataset.commands import file_of, python_command, rows_as_json
from recipec.dataset.contents import NOTHING, SPEAKERS, Row, turns_of

# Words of names and of values, which recipec chose.
_TALKS = ("conversation", "thread", "dialog", "dialogue", "chat", "session", "ticket", "case", "call", "issue")
_HOLD_TOGETHER = ("id", "uuid", "key", *_TALKS)
_SPEAK = ("role", "author", "sender", "speaker", "from", "participant", "actor", "party")
_USERS = ("customer", "client", "prompter", "visitor", "caller", "requester", "guest", "buyer", "patient", "student")
_ASSISTANTS = ("ai", "bot", "chatbot", "agent", "support", "operator", "staff", "advisor", "representative")
_ROLES = SPEAKERS | dict.fromkeys(_USERS, "user") | dict.fromkeys(_ASSISTANTS, "assistant") | {"developer": "system"}
_PARENT = "parent_id"  # of messages that form trees
_MOST_CHARACTERS, _MOST_LISTED = 60, 4
_MOST = 0.5  # of the rows: from there on they are taken for messages


class MessageRows(Struct, frozen=True):
    """The columns of rows that are messages."""

    talk: str  # the id that the messages of a conversation share
    speaker: str
    text: str
    order: str  # "" where the messages stand in the order of the file


def message_rows(rows: Sequence[Row]) -> MessageRows | None:
    """The columns of rows that are messages of conversations; None where they are something else."""
    first = rows[0] if rows else {}
    if _PARENT in first or any(turns_of(value) for value in first.values()) or _is_whole(first):
        return None
    names = [name for name in first if all(row.get(name) not in NOTHING for row in rows)]
    talks = [name for name in names if _holds_together(rows, name)]
    for talk in sorted(talks, key=lambda name: (not speaks(name, _TALKS), -len({row[name] for row in rows}))):
        speaker = next((name for name in names if name != talk and _speaks_in_turn(rows, talk, name)), "")
        text = _said(rows, {talk, speaker})
        if speaker and text:
            order = next((name for name in names if orders(name, [row[name] for row in rows])), "")
            return MessageRows(talk, speaker, text, order)
    return None


def _is_whole(row: Row) -> bool:
    """Whether a row has by its names what a format of more than a text or a question needs."""
    formats = (format for format in ROW_FORMATS.values() if format not in (TEXT, PROMPTS))
    return any(all({*role.aliases} & row.keys() for role in format.required) for format in formats)


def _holds_together(rows: Sequence[Row], name: str) -> bool:
    """Whether most rows share what a column holds with a few others, and its name says that it may be an id."""
    if not speaks(name, _HOLD_TOGETHER) or not all(isinstance(row[name], str | int) for row in rows):
        return False
    counts = Counter(row[name] for row in rows)
    return len(counts) > 1 and sum(count for count in counts.values() if count > 1) >= _MOST * len(rows)


def _speaks_in_turn(rows: Sequence[Row], talk: str, name: str) -> bool:
    """Whether a column names who speaks, and most conversations have several who do."""
    values = [row[name] for row in rows]
    if not all(isinstance(value, str) and len(value) <= _MOST_CHARACTERS for value in values):
        return False
    if not speaks(name, _SPEAK) and not {role_of(value) for value in values} >= {"user", "assistant"}:
        return False
    talks: dict[Any, list[str]] = {}
    for row in rows:
        talks.setdefault(row[talk], []).append(row[name])
    long = [said for said in talks.values() if len(said) > 1]
    return sum(len({*said}) > 1 for said in long) >= _MOST * len(long)


def _said(rows: Sequence[Row], read: set[str]) -> str:
    """The column of the text: the one whose values differ most, and of those the longest; "" where none is a text."""
    names = [
        name for name in rows[0] if name not in read and all(isinstance(row.get(name), str | None) for row in rows)
    ]
    texts = {name: [row.get(name) or "" for row in rows] for name in names if asks(rows, name)}
    long = {name: said for name, said in texts.items() if len({*said}) >= _MOST * len(said)}
    return max(long, key=lambda name: sum(map(len, long[name])), default="")


def role_of(speaker: str) -> str:
    """The role in a chat template that the name of a speaker tells; "" where it tells none."""
    if speaker.lower() in _ROLES:
        return _ROLES[speaker.lower()]
    said = {_ROLES[word] for word in words_of(speaker) if word in _ROLES} if "@" not in speaker else set()
    return said.pop() if len(said) == 1 else ""


def grouped(rows: Sequence[Row], place: str, found: MessageRows, kept: Iterable[str] = ()) -> Iterator[str]:
    """Yield the command that makes a row of each conversation; the columns that are `kept` are in the new rows."""
    speakers = dict(Counter(row[found.speaker] for row in rows).most_common())
    roles = {name: role_of(name) for name in speakers}
    told = all(roles.values()) and {"user", "assistant"} <= {*roles.values()}
    command = _command(rows, place, found, roles if told else {}, [name for name in kept if name in rows[0]])
    if command:
        made = f"make a row of each `{found.talk}`, with its messages"
        made += f" in the order of `{found.order}`" * bool(found.order)
        yield f"{made}{'' if told else _who(found, speakers)}: {command}"


def _who(found: MessageRows, speakers: Mapping[str, int]) -> str:
    listed = ", ".join(f"{json.dumps(name, ensure_ascii=False)} ({count})" for name, count in [*speakers.items()][:4])
    more = ", …" * (len(speakers) > _MOST_LISTED)
    return (
        f", and write who of `{found.speaker}` is the assistant in the place of ASSISTANT "
        f"(messages of the sampled rows: {listed}{more})"
    )


def _command(rows: Sequence[Row], place: str, found: MessageRows, roles: Mapping[str, str], kept: Sequence[str]) -> str:
    """The command; where no roles are told, all speakers but one are the user."""
    named = (found.talk, found.speaker, found.text, found.order)
    talk, speaker, text, order = (json.dumps(name, ensure_ascii=False) for name in named)
    said = f"turn[{speaker}]"
    role = f'"assistant" if {said} in ["ASSISTANT"] else "user"'
    if roles:
        role = f"{json.dumps(roles, ensure_ascii=False)}[{said}]"
    turns = "turns"
    if found.order:
        number = all(_is_number(row[found.order]) for row in rows)
        turns = f"sorted(turns, key=lambda turn: {f'float(turn[{order}])' if number else f'turn[{order}]'})"
    beside = "".join(f"{key}: turns[0][{key}], " for key in (json.dumps(name, ensure_ascii=False) for name in kept))
    made = f'{{{beside}"messages": [{{"role": {role}, "content": turn[{text}]}} for turn in {turns}]}}'
    before = f"talks = {{}}; [talks.setdefault(row[{talk}], []).append(row) for row in rows]; "
    if file_of(place).endswith(".csv"):
        return rows_as_json(made, place, "for turns in talks.values()", before)
    return python_command(made, "for turns in talks.values()", place, before)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or str(value).strip().lstrip("-").replace(".", "", 1).isdigit()
