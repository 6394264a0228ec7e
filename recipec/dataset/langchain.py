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
from recipec.dataset.contents import Row

_PLACEHOLDERS = ("placeholder", "MessagesPlaceholder")  # where a prompt takes messages in, of which a row has none
_TYPES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CLASSES = {f"{word}message{end}": role for word, role in _TYPES.items() for end in ("", "chunk")}
_ROLES = _TYPES | _CLASSES | {"user": "user", "assistant": "assistant"}  # in lower case
# Calls of tools as chat templates read them, and what a result names.
_CALL = 'if has("args") then {id, type: "function", function: {name, arguments: .args}} else . end'
_OF_TOOLS = (
    " + ((if (.tool_calls // []) != [] then .tool_calls else .additional_kwargs.tool_calls? // [] end) as $calls"
    f" | if $calls != [] then {{tool_calls: ($calls | map({_CALL}))}} else {{}} end)"
    " + (if .tool_call_id then {tool_call_id} else {} end)"
)


class _Way(Struct, frozen=True):
    """One way to write a message: what says who speaks, and what leads to the fields of the message, in jq."""

    word: str
    fields: str


_FLAT, _DATA, _DUMPED = _Way(".type", ""), _Way(".type", ".data | "), _Way(".id[-1]", ".kwargs | ")
_PAIR, _ROLE = _Way(".[0]", "{content: .[1]} | "), _Way(".role", "")


def of_langchain(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the program that gives messages of LangChain a role and a content, with what it does."""
    for name in names:
        turns = [turn for row in rows for turn in _listed(row.get(name))]
        words = dict.fromkeys(map(_word, turns))
        known = {word: _ROLES[word.lower()] for word in words if word.lower() in _ROLES}
        left_out = words.keys() & {*_PLACEHOLDERS}
        ways = {_way(turn) for turn in turns}
        if len(ways) == 1 and (ways != {_ROLE} or left_out) and words.keys() == known.keys() | left_out:
            for way in filter(None, ways):
                more = ", and to leave out placeholders, which hold no message" * bool(left_out)
                yield _program(name, way, known, turns, left_out), f"to read messages of LangChain{more}"
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


def _program(name: str, way: _Way, roles: Mapping[str, str], turns: Sequence[Any], left_out: Collection[str]) -> str:
    """The program for one column; calls of tools and their results stay."""
    tools = _OF_TOOLS * any(map(_has_tools, turns))
    chosen = f" | select({way.word} | IN({', '.join(map(json.dumps, roles))}))" * bool(left_out)
    turn = f"{{role: {json.dumps(roles)}[{way.word}]}} + ({way.fields}{{content}}{tools})"
    return f"({path_of(name)} | arrays) |= [.[]{chosen} | {turn}]"


def _has_tools(turn: Any) -> bool:
    """Whether a message calls a tool, or is the result of a call."""
    fields = turn.get("kwargs", turn.get("data", turn)) if isinstance(turn, Mapping) else {}
    more = fields.get("additional_kwargs") or {}
    return any(fields.get(name) for name in ("tool_calls", "tool_call_id")) or bool(more.get("tool_calls"))
