"""Rows that are single messages of conversations, which an id holds together: which columns say what, and whose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import MEANT, PROMPTS, SPEAK_FOR, TEXT
from recipec.dataset.classes import class_columns, named_as_class
from recipec.dataset.column_names import asks, speaks, words_of
from recipec.dataset.commands import file_of, leaving_out, python_command, rows_as_json
from recipec.dataset.contents import ASSISTANT, CALLS, NOTHING, OF_RESULTS, SPEAKERS, TOOL_SPEAKERS, Row, turns_of
from recipec.dataset.meaning import OF_ROWS, WEIGHTS, along, beside
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
_TOOLS = TOOL_SPEAKERS | {"function": "tool"}
_ROLES = SPEAKERS | dict.fromkeys(_USERS, "user") | dict.fromkeys(_ASSISTANTS, "assistant") | {"developer": "system"}
_ROLES |= _TOOLS
_OF_CALLS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}  # beside calls as texts
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


class _Parts(Struct, frozen=True):
    """What the new rows are made of."""

    roles: Mapping[str, str]  # speaker -> who speaks
    stay: Sequence[str]  # columns of which the first message of a conversation tells the value
    of_talks: Sequence[str]  # columns with a meaning that are of whole conversations
    of_messages: Sequence[str]


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
        texts = _texts(rows, {talk, speaker, *MEANT})
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
    parts = _Parts(_written(roles, told), [*stay], *_along(rows, found, roles, [*stay]))
    if command := _command(rows, place, found, parts):
        made = f"make a row of each `{found.talk}`, with its messages in the order of {_order(found)}"
        left = _left(rows, found, parts, roles if told else {})
        yield f"{made}{'' if told else _who(found, speakers)}{left}: {command}"


def _written(roles: Mapping[str, str], told: bool) -> dict[str, str]:
    """Speaker -> who speaks, as messages write it: with `from` and `value` where the text of one is a call of a tool.

    Where no roles are told, all are the user but system prompts and tools, and the one who is the assistant.
    """
    known = {name: role for name, role in roles.items() if told or role in ("system", "tool")}
    calls = {name: CALLS for name in roles if name.lower() == CALLS}
    return known | {name: _OF_CALLS[role] for name, role in known.items()} | calls if calls else known


def _along(
    rows: Sequence[Row], found: MessageRows, roles: Mapping[str, str], stay: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The columns that the conversations take along, and those that their messages do."""
    of_tools = [row for row in rows if roles[row[found.speaker]] == "tool"]
    read = {found.talk, found.speaker, found.text, *stay}
    names = beside(rows, read, (name for name in OF_RESULTS if any(row.get(name) not in NOTHING for row in of_tools)))
    return [name for name in names if name in OF_ROWS], [name for name in names if name not in OF_ROWS]


def _left(rows: Sequence[Row], found: MessageRows, parts: _Parts, roles: Mapping[str, str]) -> str:
    """What conversations have several values of, and weights of messages that are no answers."""
    talks: dict[Any, list[Row]] = {}
    for row in rows:
        talks.setdefault(row[found.talk], []).append(row)
    several = {
        f"other values of `{name}` in a conversation": sum(len(_values(turns, name)) > 1 for turns in talks.values())
        for name in parts.of_talks
    }
    told = leaving_out({what: number for what, number in several.items() if number}, len(talks))
    others = [row for row in rows if roles.get(row[found.speaker]) != ASSISTANT[0]] if roles else []
    unlearned = {
        f"`{name}` of messages that are no answers": sum(row.get(name) not in NOTHING for row in others)
        for name in parts.of_messages
        if name in WEIGHTS and any(row.get(name) not in NOTHING for row in others or rows)
    }
    return told + leaving_out(unlearned, len(rows))


def _values(turns: Sequence[Row], name: str) -> set[str]:
    return {json.dumps(turn[name], default=str) for turn in turns if turn.get(name) not in NOTHING}


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


def _command(rows: Sequence[Row], place: str, found: MessageRows, parts: _Parts) -> str:
    """The command that goes over the conversations, each of which is a list of rows in the order of its messages."""
    talk, order = (json.dumps(name, ensure_ascii=False) for name in (found.talk, found.order))
    turns = "turns"
    if found.order:
        number = in_numbers(rows, found.order)
        turns = f"sorted(turns, key=lambda turn: {f'float(turn[{order}])' if number else f'turn[{order}]'})"
    stay = {name: f"turns[0][{json.dumps(name, ensure_ascii=False)}]" for name in parts.stay}
    stay |= {name: f'next((turn["{name}"] for turn in turns if turn.get("{name}")), None)' for name in parts.of_talks}
    columns = "".join(f"{json.dumps(name, ensure_ascii=False)}: {value}, " for name, value in stay.items())
    made = f'{{{columns}"messages": [{_message(found, parts)} for turn in {turns}]}}'
    before = f"talks = {{}}; [talks.setdefault(row[{talk}], []).append(row) for row in rows]; "
    before += f"who = lambda turn: {_who_speaks(found, parts)}; "
    if file_of(place).endswith(".csv"):
        return rows_as_json(made, place, "for turns in talks.values()", before)
    return python_command(made, "for turns in talks.values()", place, before)


def _message(found: MessageRows, parts: _Parts) -> str:
    """The message of a `turn` for Python; only what the assistant says has a weight."""
    speaker, said, _, answers = _style(parts)
    written = f'{{"{speaker}": who(turn), "{said}": turn[{json.dumps(found.text, ensure_ascii=False)}]}}'
    always, learned = ([name for name in parts.of_messages if (name in WEIGHTS) is of] for of in (False, True))
    weights = f' | ({along("turn", learned)} if who(turn) == "{answers}" else {{}})'
    return written + f" | {along('turn', always)}" * bool(always) + weights * bool(learned)


def _who_speaks(found: MessageRows, parts: _Parts) -> str:
    """Who speaks, for Python; where no roles are told, all speakers but one are the user."""
    said, listed = f"turn[{json.dumps(found.speaker, ensure_ascii=False)}]", json.dumps(parts.roles, ensure_ascii=False)
    _, _, asks, answers = _style(parts)
    if answers in parts.roles.values():
        return f"{listed}[{said}]"
    others = f'{listed}.get({said}, "{asks}")' if parts.roles else f'"{asks}"'
    return f'"{answers}" if {said} in ["ASSISTANT"] else {others}'


def _style(parts: _Parts) -> tuple[str, str, str, str]:
    """The fields of a message that say who speaks and what is said; who asks, and who answers."""
    if CALLS in parts.roles.values():
        return "from", "value", _OF_CALLS["user"], _OF_CALLS["assistant"]
    return "role", "content", "user", ASSISTANT[0]
