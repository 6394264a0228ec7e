"""What makes lists of messages of conversations that are written otherwise: in objects, in other fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import MEANT, TEXTS
from recipec.dataset.commands import path_of
from recipec.dataset.contents import NOTHING, Row, turns_of
from recipec.dataset.labeled import in_place_of

# Fields of messages that say who speaks, and what is said, beside those that are read.
_SPEAKERS, _SAID = ("speaker", "author", "sender", "from", "role"), ("text", "message", "utterance", "content", "value")
_READ = {"system", "user", "assistant", "tool"}  # who speaks in messages of `role` and `content`
_ASKS = ("user", "human", "customer", "client", "visitor", "caller", "patient", "student", "prompter")
_ANSWERS = ("assistant", "agent", "bot", "ai", "gpt", "support", "operator", "advisor", "model", "system")

# Names of columns that may be texts, such as an answer: a list in one may hold anything.
_OF_TEXTS = {name for row in ROW_FORMATS.values() for role in row.roles if TEXTS in role.holds for name in role.aliases}


def within_objects(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the program that takes the list of messages out of the object that holds it; what is beside it becomes
    columns, named after the object where a row has another value of that name. Rows without such an object stay."""
    for name in names:
        objects = [row[name] for row in rows if isinstance(row.get(name), Mapping)]
        lists = [*dict.fromkeys(key for held in objects for key in lists_within(held))]
        if len(lists) != 1:
            continue
        beside = {key for held in objects for key in held} - {*lists}
        twice = sorted(key for key in beside if any(_differs(row, name, key) for row in rows))
        if not any(key in MEANT or f"{name}_{key}" in row for key in twice for row in rows):
            yield _taken_out(rows, name, lists[0], twice, bool(beside))


def _taken_out(rows: Sequence[Row], name: str, key: str, twice: Sequence[str], beside: bool) -> str:
    """The program for one list, with a test of what holds it where sampled rows differ in that."""
    renamed = "".join(f" | {path_of(f'{name}_{each}')} = {path_of(each)}" for each in twice)
    others = f"({path_of(name)} | del({path_of(key)}){renamed}) + . | " * beside
    program = f"{others}{path_of(name)} |= {path_of(key)}"
    if all(isinstance(row.get(name), Mapping) and turns_of(row[name].get(key)) for row in rows):
        return program
    return f'if {path_of(name)} | type == "object" and ({path_of(key)} | type == "array") then {program} else . end'


def _differs(row: Row, name: str, key: str) -> bool:
    """Whether an object holds a value under a key, and its row another one."""
    inner = row.get(name)
    return isinstance(inner, Mapping) and key in inner and key in row and inner[key] != row[key]


def lists_within(value: Any) -> list[str]:
    """The keys of an object that hold a list of messages; none of what is no object."""
    return [key for key, held in value.items() if is_talk(held)] if isinstance(value, Mapping) else []


def is_talk(value: Any) -> bool:
    """Whether a value is a list of messages: of the fields that are read, or of others with somebody who is known.

    Records such as `[{"role": "PER", "text": "Anna"}]` are none: nobody asks and answers in them.
    """
    turns = turns_of(value)
    if any({"role", "content"} <= turn.keys() or {"from", "value"} <= turn.keys() for turn in turns):
        return True
    speaker, said = (_common(turns, fields) for fields in (_SPEAKERS, _SAID))
    known = (*_ASKS, *_ANSWERS)
    return bool(speaker and said and any(turn[speaker].lower() in known for turn in turns))


def in_other_fields(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the program for messages whose fields have other names, with what it takes for granted of who speaks.

    None where a message has another value under the name that is written.
    """
    for name in names:
        if name in _OF_TEXTS and not any(is_talk(row.get(name)) for row in rows):
            continue  # a list of records, as an answer
        turns = [turn for row in rows for turn in turns_of(row.get(name))]
        speaker, said = (_common(turns, fields) for fields in (_SPEAKERS, _SAID))
        if not speaker or not said or {speaker, said} in ({"role", "content"}, {"from", "value"}):
            continue
        words = list(dict.fromkeys(str(turn[speaker]) for turn in turns))
        as_they_are = _READ.issuperset(words) and not _system_answers(rows, name, speaker)
        roles = {word: word for word in words} if as_they_are else _roles(words)
        if not roles or any(_writes_over(turn, speaker, said, roles) for turn in turns):
            return
        left = f" | del({path_of(name)})" * (name != "messages")
        replaced = in_place_of(rows, ["messages"], [name])
        if as_they_are:
            fields = {field: read for field, read in ((speaker, "role"), (said, "content")) if field != read}
            told = " and ".join(f"`{field}` as `{read}`" for field, read in fields.items())
            yield f".messages = [{path_of(name)}[] | {_renamed(fields)}]{left}", f"to read {told}{replaced}"
            return
        listed = json.dumps(roles, ensure_ascii=False)
        renamed = [path_of(field) for field in (speaker, said) if field not in ("role", "content")]
        turn = f". + {{role: {listed}[{path_of(speaker)}], content: {path_of(said)}}} | del({', '.join(renamed)})"
        yield f".messages = [{path_of(name)}[] | {turn}]{left}", f"{_told(roles)}{replaced}"
        return


def _writes_over(turn: Mapping[str, Any], speaker: str, said: str, roles: Mapping[str, str]) -> bool:
    """Whether a message holds another value under `role` or `content`, which its new one would take the place of."""
    written = {"role": (speaker, roles[turn[speaker]]), "content": (said, turn[said])}
    return any(field != name and turn.get(name) not in (*NOTHING, value) for name, (field, value) in written.items())


def _renamed(fields: Mapping[str, str]) -> str:
    """The program for a message whose fields alone have other names."""
    made = ", ".join(f"{name}: {path_of(field)}" for field, name in fields.items())
    return f". + {{{made}}} | del({', '.join(map(path_of, fields))})"


def _common(turns: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> str:
    return next((field for field in fields if turns and all(isinstance(turn.get(field), str) for turn in turns)), "")


def _system_answers(rows: Sequence[Row], name: str, speaker: str) -> bool:
    """Whether `system` speaks behind the user, and nobody is the assistant."""
    talks = [[turn[speaker] for turn in turns_of(row.get(name))] for row in rows]
    pairs = (pair for talk in talks for pair in pairwise(talk))
    return ("user", "system") in pairs and not any("assistant" in talk for talk in talks)


def _roles(words: Sequence[str]) -> dict[str, str]:
    """Who of two asks and who answers: by their names, else the first one asks. Of more all must be known, else {}."""
    if len(words) != 2:
        roles = {word: _role(word.lower()) for word in words}
        return roles if all(roles.values()) and {"user", "assistant"} <= {*roles.values()} else {}
    first, second = words
    answers_first = first.lower() in _ANSWERS or second.lower() in _ASKS
    return {first: "assistant", second: "user"} if answers_first else {first: "user", second: "assistant"}


def _role(word: str) -> str:
    """The role of a speaker beside others, of whom one answers; "" of an unknown one."""
    known = dict.fromkeys(_ASKS, "user") | dict.fromkeys(_ANSWERS, "assistant") | {word: word for word in _READ}
    return known.get(word, "")


def _told(roles: Mapping[str, str]) -> str:
    who = {part: [repr(word) for word, role in roles.items() if role == part] for part in ("user", "assistant")}
    does = {"user": "ask", "assistant": "answer"}
    told = [f"{' and '.join(words)} {does[part]}{'s' * (len(words) == 1)}" for part, words in who.items()]
    return f"if {' and '.join(told)}"
