"""Messages as LangChain writes them: with a `type`, as `message_to_dict` or `dumpd` do, or in pairs of a prompt.

langchain-core 1.0: messages/utils.py (convert_to_messages, messages_from_dict), messages/tool.py (ToolCall),
load/dump.py, prompts/chat.py (MessagesPlaceholder).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.dataset.commands import path_of
from recipec.dataset.contents import NOTHING, Row

_PLACEHOLDERS = ("placeholder", "MessagesPlaceholder")  # where a prompt takes messages in, of which a row has none
_TYPES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CLASSES = {f"{word}message{end}": role for word, role in _TYPES.items() for end in ("", "chunk")}
_ROLES = _TYPES | _CLASSES | {"user": "user", "assistant": "assistant"}  # in lower case
# Fields that mean something to LangChain alone: the kind of a message, the run that wrote it, what a tool kept back.
_OWN = ("lc", "type", "role", "id", "example", "additional_kwargs", "response_metadata", "usage_metadata")
_OWN += ("tool_call_chunks", "chunk_position", "artifact", "status")
_CALLS = "tool_calls"  # which `additional_kwargs` repeats as the provider wrote them
_SAID = "with_entries(select(.value | IN(null, [], {}) | not))"
# A call as chat templates read it.
_CALL = 'if has("args") then {id, type: "function", function: {name, arguments: .args}} else . end'


class _Way(Struct, frozen=True):
    """One way to write a message: what says who speaks, in jq, and the field that holds the others, if one does."""

    word: str
    within: str = ""


_FLAT, _DATA, _DUMPED = _Way(".type"), _Way(".type", "data"), _Way(".id[-1]", "kwargs")
_PAIR, _ROLE = _Way(".[0]"), _Way(".role")


def of_langchain(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the program that gives messages of LangChain a role and a content, with what it does."""
    for name in names:
        turns = [turn for row in rows for turn in _listed(row.get(name))]
        words = dict.fromkeys(map(_word, turns))
        known = {word: _ROLES[word.lower()] for word in words if word.lower() in _ROLES}
        left_out = words.keys() & {*_PLACEHOLDERS}
        ways = {None if _contradicts(turn) else _way(turn) for turn in turns}
        if len(ways) == 1 and (ways != {_ROLE} or left_out) and words.keys() == known.keys() | left_out:
            for way in filter(None, ways):
                more = ", and to leave out placeholders, which hold no message" * bool(left_out)
                yield _program(name, way, known, left_out), f"to read messages of LangChain{more}"
                return


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _way(turn: Any) -> _Way | None:
    """How a message is written; None where LangChain does not write it so."""
    if isinstance(turn, list):
        return _PAIR if len(turn) == 2 and all(isinstance(part, str) for part in turn) else None
    if not isinstance(turn, Mapping):
        return None
    if isinstance(turn.get("role"), str):
        return _ROLE if "content" in turn else None
    if "lc" in turn and isinstance(turn.get("kwargs"), Mapping):
        return _DUMPED
    if isinstance(turn.get("data"), Mapping):
        return _DATA
    return _FLAT if "content" in turn else None


def _word(turn: Any) -> str:
    """Who speaks, in the words of LangChain; "" where nothing says it."""
    if isinstance(turn, list):
        return str(turn[0]) if turn else ""
    if not isinstance(turn, Mapping):
        return ""
    named = turn.get("id") if "lc" in turn else [turn.get("role", turn.get("type"))]
    return named[-1] if isinstance(named, list) and named and isinstance(named[-1], str) else ""


def _layers(turn: Any) -> list[Mapping[str, Any]]:
    """The objects that hold fields of a message: outer ones first."""
    way = _way(turn)
    if way is None or way == _PAIR:
        return []
    held = turn[way.within] if way.within else turn
    return [one for one in (turn, held, held.get("additional_kwargs")) if isinstance(one, Mapping)]


def _contradicts(turn: Any) -> bool:
    """Whether two of the objects of a message have a field in common that does not hold the same."""
    said: dict[str, Any] = {}
    fields = (field for layer in _layers(turn) for field in layer.items())
    kept = [(name, value) for name, value in fields if name not in (*_OWN, _CALLS) and value not in NOTHING]
    return any(said.setdefault(name, value) != value for name, value in kept)


def _program(name: str, way: _Way, roles: Mapping[str, str], left_out: Collection[str]) -> str:
    """The program for one column; every field stays that may mean something to others than LangChain."""
    chosen = f" | select({way.word} | IN({', '.join(map(json.dumps, roles))}))" * bool(left_out)
    turn = f"{{role: {json.dumps(roles)}[{way.word}], content: null}} + {_fields(way)}"
    return f"({path_of(name)} | arrays) |= [.[]{chosen} | {turn}]"


def _fields(way: _Way) -> str:
    """What a message says, in jq: what stands closer to its text wins, and what says nothing is left out."""
    if way == _PAIR:
        return "{content: .[1]}"
    held = f".{way.within}"
    layers = dict.fromkeys((f"{held.rstrip('.')}.additional_kwargs", ".", held))
    gone = ", ".join(f".{field}" for field in (*_OWN, *[way.within] * bool(way.within)))
    said = f"[{', '.join(layers)}] | map(objects | {_SAID}) | add"
    return f"({said} | (.{_CALLS} | arrays) |= map({_CALL}) | del({gone}))"
