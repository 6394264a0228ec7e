"""What preparation would refuse of what a row carries beside its texts: tools, weights, thoughts, system prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipec.axes import CARRIED
from recipec.dataset.contents import ASSISTANT, NOTHING, THOUGHT, BadContent, Row, read_json, turns_of

_SYSTEM = "system"


def check_carried(row: Row, columns: Sequence[str], carries: Sequence[str], takes_out: bool) -> None:
    """Raise BadContent where the row can be read in two ways, or in none.

    `columns` are those of the format that hold conversations or answers, in its order; `takes_out`: thoughts are not
    learned.
    """
    turns = [turn for column in columns for turn in turns_of(row.get(column))]
    if "tools" in carries:
        _check_tools(row)
    if _SYSTEM in carries:
        _check_system(row, columns)
    if "weight" in carries:
        for turn in turns:
            _check_weight(turn)
    if takes_out:
        for turn in turns:
            _check_balance(turn)
    elif "reasoning" in carries:
        for turn in turns:
            _check_thought(turn)


def _check_tools(row: Row) -> None:
    """One list of tools with names, or its text."""
    names = [name for name in CARRIED["tools"].columns if row.get(name) not in NOTHING]
    if len(names) > 1:
        raise BadContent(f"{' and '.join(f'`{name}`' for name in names)} both hold tools: one of them must")
    for name in names:
        tools = read_json(row[name])
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise BadContent(f"`{name}` holds no list of tools: {row[name]!r:.60}")
        for tool in tools:
            function = tool.get("function", tool)
            if not isinstance(function, dict) or not function.get("name"):
                raise BadContent(f"`{name}` has a tool without a name: {tool!r:.60}")


def _check_system(row: Row, columns: Sequence[str]) -> None:
    """One system prompt, in a column or in the first message."""
    first = next((turns[0] for turns in (turns_of(row.get(column)) for column in columns) if turns), {})
    own = [_text(first)] if _speaker(first) == _SYSTEM else []
    found = {*own, *(str(row[name]) for name in CARRIED[_SYSTEM].columns if row.get(name) not in NOTHING)}
    if len(found) > 1:
        shown = " and ".join(f"{text!r:.40}" for text in sorted(found))
        raise BadContent(f"the row has several system prompts: {shown}")
    for name in CARRIED[_SYSTEM].columns:
        if row.get(name) not in NOTHING and not isinstance(row[name], str):
            raise BadContent(f"`{name}` holds {row[name]!r:.40}, which is no text")


def _check_weight(turn: Mapping[str, Any]) -> None:
    given = {name: turn[name] for name in CARRIED["weight"].fields if turn.get(name) is not None}
    shown = ", ".join(f"`{name}` {value!r:.40}" for name, value in given.items())
    if any(value not in (0, 1) for value in given.values()):
        raise BadContent(f"a message has {shown}: a weight is 0 or 1")
    if len({*given.values()}) > 1:
        raise BadContent(f"a message has {shown}, which contradict each other")
    if 1 in given.values() and _speaker(turn) not in ASSISTANT:
        raise BadContent(f"a message of the {_speaker(turn)} has {shown}, but only what the assistant says is learned")


def _check_thought(turn: Mapping[str, Any]) -> None:
    """A thought is one text of the assistant, in one place."""
    names = [name for name in CARRIED["reasoning"].fields if turn.get(name) not in NOTHING]
    shown = " and ".join(f"`{name}`" for name in names)
    if len(names) > 1:
        raise BadContent(f"a message has {shown}: its thought must be in one field")
    for name in names:
        if not isinstance(turn[name], str):
            raise BadContent(f"a message has `{name}` {turn[name]!r:.40}, which is no text")
        if _speaker(turn) not in ASSISTANT:
            raise BadContent(f"a message of the {_speaker(turn)} has `{name}`, but only the assistant's is learned")
        if THOUGHT[1] in _text(turn):
            raise BadContent(f"a message has a thought in `{name}` and another in its text")


def _check_balance(turn: Mapping[str, Any]) -> None:
    """What is taken out ends with </think>, and stands before the answer."""
    first, last = THOUGHT
    text = _text(turn) if _speaker(turn) in ASSISTANT else ""
    thought, end, answer = text.rpartition(last)
    if last in thought or thought.count(first) > 1 or first in (answer if end else text):
        raise BadContent(f"a thought is not between one {first} and one {last}: {text!r:.60}")
    if first in thought and not thought.lstrip().startswith(first):
        raise BadContent(f"something is said before a thought: {text!r:.60}")


def _speaker(turn: Mapping[str, Any]) -> Any:
    return turn.get("role", turn.get("from"))


def _text(turn: Mapping[str, Any]) -> str:
    """What a message says, its parts joined."""
    said = turn.get("content", turn.get("value"))
    if isinstance(said, list):
        return "".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
    return said if isinstance(said, str) else ""
