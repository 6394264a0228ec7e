"""Rows that are single messages of conversations, which an id holds together: which columns say what, and whose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import PROMPTS, SPEAK_FOR, TEXT
from recipec.dataset.classes import class_columns, named_as_class
from recipec.dataset.column_names import asks, speaks, words_of
from recipec.dataset.commands import file_of, python_command, rows_as_json
from recipec.dataset.contents import NOTHING, SPEAKERS, Row, turns_of
from recipec.dataset.message_order import in_numbers, order_of
from recipec.dataset.ratings import ratings
from recipec.dataset.scales import scales

# Words of names and of values, which recipec chose.
_TALKS = ("conversation", "conv", "convo", "thread", "dialog", "dialogue", "chat", "session", "ticket", "case", "call")
_TALKS += ("issue",)
_IDS, _NUMBERS = ("id", "uuid", "guid", "uid", "key", "hash"), ("number", "num", "no", "nr", "ref", "reference")
_SPEAK = ("role", "author", "sender", "speaker", "from", "participant", "actor", "party")
_TELL = ("role", "speaker")  # names of columns of people who speak to each other; authors may write alone
_USERS = ("customer", "client", "prompter", "visitor", "caller", "requester", "guest", "buyer", "patient", "student")
_ASSISTANTS = ("ai", "bot", "chatbot", "agent", "support", "operator", "staff", "advisor", "representative")
_ROLES = SPEAKERS | dict.fromkeys(_USERS, "user") | dict.fromkeys(_ASSISTANTS, "assistant") | {"developer": "system"}
_PARENT = "parent_id"  # of messages that form trees
_MOST_CHARACTERS, _MOST_LISTED = 60, 4
_MOST = 0.5  # of the rows: from there on they are taken for messages
_MOST_MESSAGES = 50  # of a conversation, on average: rows that share a class are more


class MessageRows(Struct, frozen=True):
    """The columns of rows that are messages."""

    talk: str  # the id that the messages of a conversation share
    speaker: str
    text: str
    order: str  # "" where the messages stand in the order of the file
    otherwise: str = ""  # a column that orders them in another way


def message_rows(rows: Sequence[Row]) -> MessageRows | None:
    """The columns of rows that are messages of conversations; None where they are something else."""
    first = rows[0] if rows else {}
    if _PARENT in first or any(turns_of(value) for value in first.values()) or _is_whole(first):
        return None
    names = [name for name in first if all(row.get(name) not in NOTHING for row in rows)]
    talks = [name for name in names if _holds_together(rows, name)]
    for talk in sorted(talks, key=lambda name: (not speaks(name, _TALKS), -len({row[name] for row in rows}))):
        speakers = [name for name in names if name != talk and _speaks_in_turn(rows, talk, name)]
        speaker = min(speakers, key=lambda name: not _tells_both(rows, name), default="")
        texts = _texts(rows, {talk, speaker})
        if speaker and texts and _are_messages(rows, talk, speaker, texts):
            text = max(texts, key=lambda name: sum(len(row.get(name) or "") for row in rows))
            others = [name for name in names if name not in (talk, speaker, text)]
            return MessageRows(talk, speaker, text, *order_of(rows, talk, others))
    return None


def _is_whole(row: Row) -> bool:
    """Whether a row has by its names what a format of more than a text or a question needs."""
    formats = (format for format in ROW_FORMATS.values() if format not in (TEXT, PROMPTS))
    return any(all({*role.aliases} & row.keys() for role in format.required) for format in formats)


def _holds_together(rows: Sequence[Row], name: str) -> bool:
    """Whether most rows share what a column holds with a few others, and its name says that it may be an id."""
    if not _may_be_id(name) or not all(isinstance(row[name], str | int) for row in rows):
        return False
    counts = Counter(row[name] for row in rows)
    few = len(counts) > 1 and len(rows) <= _MOST_MESSAGES * len(counts)
    return few and sum(count for count in counts.values() if count > 1) >= _MOST * len(rows)


def _may_be_id(name: str) -> bool:
    """Whether a name says that it is an id, or the number of a conversation: an `issue_type` is the class of one."""
    if speaks(name, _IDS):
        return True
    last = "".join(words_of(name)[-1:])
    return speaks(last, _TALKS) or (speaks(last, _NUMBERS) and speaks(name, _TALKS))


def _speaks_in_turn(rows: Sequence[Row], talk: str, name: str) -> bool:
    """Whether a column names who speaks, and most conversations have several who do."""
    values = [row[name] for row in rows]
    if not all(isinstance(value, str) and len(value) <= _MOST_CHARACTERS for value in values):
        return False
    if not speaks(name, _SPEAK) and not _tells_both(rows, name):
        return False
    talks: dict[Any, list[str]] = {}
    for row in rows:
        talks.setdefault(row[talk], []).append(row[name])
    long = [said for said in talks.values() if len(said) > 1]
    return sum(len({*said}) > 1 for said in long) >= _MOST * len(long)


def _tells_both(rows: Sequence[Row], name: str) -> bool:
    """Whether the values of a column say who is the user and who is the assistant."""
    values = {row[name] for row in rows if isinstance(row[name], str)}
    return {role_of(value) for value in values} >= {"user", "assistant"}


def _texts(rows: Sequence[Row], read: set[str]) -> list[str]:
    """The columns of texts, most of which differ."""
    names = [
        name for name in rows[0] if name not in read and all(isinstance(row.get(name), str | None) for row in rows)
    ]
    texts = {name: {row.get(name) or "" for row in rows} for name in names if asks(rows, name)}
    return [name for name, said in texts.items() if len(said) >= _MOST * len(rows)]


def _are_messages(rows: Sequence[Row], talk: str, speaker: str, texts: Sequence[str]) -> bool:
    """Whether rows are messages rather than questions with answers, classes, translations or what an author wrote.

    A conversation between a user and an assistant may have more beside its messages, such as their classes.
    """
    if any(speaks(name, SPEAK_FOR["prompt"]) for name in texts) and any(
        speaks(name, SPEAK_FOR["completion"]) for name in texts
    ):
        return False
    talks, both = speaks(talk, _TALKS), _tells_both(rows, speaker)
    if talks and both:
        return True
    classes = class_columns(rows, [name for name in rows[0] if named_as_class(name) and name not in (talk, speaker)])
    if classes or len([name for name in texts if _is_written(rows, name)]) > 1:
        return False
    return talks or speaks(speaker, _TELL) or any(role_of(row[speaker]) for row in rows)


def _is_written(rows: Sequence[Row], name: str) -> bool:
    """Whether most of what a column holds is of several words."""
    return sum(" " in (row.get(name) or "").strip() for row in rows) >= _MOST * len(rows)


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
    stay = dict.fromkeys([*(name for name in kept if name in rows[0]), *_ratings_of_talks(rows, found)])
    if command := _command(rows, place, found, roles if told else {}, [*stay]):
        made = f"make a row of each `{found.talk}`, with its messages in the order of {_order(found)}"
        yield f"{made}{'' if told else _who(found, speakers)}: {command}"


def _order(found: MessageRows) -> str:
    """The order, for a reader: where two columns disagree, the user has to say which one is right."""
    if found.otherwise:
        return f"`{found.order}` (`{found.otherwise}` orders them otherwise: write it in its place if it is right)"
    return f"`{found.order}`" if found.order else "the file"


def _ratings_of_talks(rows: Sequence[Row], found: MessageRows) -> list[str]:
    """The columns that rate whole conversations: one value for all messages of each."""
    talks = len({row[found.talk] for row in rows})
    names = [name for name in rows[0] if name not in (found.talk, found.speaker, found.text)]
    rated = dict.fromkeys([*scales(rows, names), *ratings(rows, names)])
    return [name for name in rated if len({(row[found.talk], str(row.get(name))) for row in rows}) == talks]


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
        number = in_numbers(rows, found.order)
        turns = f"sorted(turns, key=lambda turn: {f'float(turn[{order}])' if number else f'turn[{order}]'})"
    beside = "".join(f"{key}: turns[0][{key}], " for key in (json.dumps(name, ensure_ascii=False) for name in kept))
    made = f'{{{beside}"messages": [{{"role": {role}, "content": turn[{text}]}} for turn in {turns}]}}'
    before = f"talks = {{}}; [talks.setdefault(row[{talk}], []).append(row) for row in rows]; "
    if file_of(place).endswith(".csv"):
        return rows_as_json(made, place, "for turns in talks.values()", before)
    return python_command(made, "for turns in talks.values()", place, before)
