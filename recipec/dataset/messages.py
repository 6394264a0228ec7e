"""Messages as prepare_data.py reads them: who speaks, what is said, what is thought and which tools are called.

What is refused here is refused in templates/data/messages.py.j2 as well:
tests/execution/test_rows_agree_with_emitted.py holds the two to each other, kind of fault by kind of fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import CARRIED
from recipec.axes.row_formats import FROM_VALUE
from recipec.dataset.contents import (
    ASSISTANT,
    CALLS,
    NOTHING,
    OF_RESULTS,
    SPEAKERS,
    THOUGHT,
    TOOL_SPEAKERS,
    BadContent,
    parted,
    written_in,
)
from recipec.dataset.json_texts import BadJson, json_of, with_numbers

Message = dict[str, Any]  # role, content, and what it carries: reasoning_content, tool_calls, tool_call_id, name

_SYSTEM, _USER, _TOOL = "system", "user", "tool"
# Who speaks, in the words of the rows -> in those of chat templates; and who speaks only where rows carry tools.
_ROLES = {_SYSTEM: _SYSTEM, _USER: _USER, ASSISTANT[0]: ASSISTANT[0]}
_TOOL_ROLES = {_TOOL: _TOOL}
_THINKING = "thinking"  # the type of a part that holds a thought, as Mistral writes it
_AROUND_CALLS, _OF_CALLS = {"id", "type", "index"}, {"name", "arguments"}


class RowReading(Struct, frozen=True):
    """What is read of messages, and what is left out."""

    carries: tuple[str, ...] = ()  # names of CARRIED
    ignored: frozenset[str] = frozenset()  # fields that the recipe passes over
    takes_out: bool = False  # thoughts are left out
    answers_anew: bool = False  # answers at the end of a prompt are left out
    opening_answers: str = ""  # the value of data.opening_answers
    skips_incomplete: bool = False  # rows that lack what their format needs are left out
    system: str = ""  # the value of data.system
    split_by: str = ""  # the column that rows are split by, without which they are incomplete, too


def messages_of(value: Any, name: str, content: str, reading: RowReading) -> list[Message]:
    """The messages of a column, of which `content` says how they are written. Raises BadContent."""
    if not isinstance(value, list) or not all(isinstance(turn, dict) for turn in value):
        raise BadContent(f"`{name}` holds {value!r:.40}, which is no list of messages")
    if not value:
        raise BadContent(f"`{name}` is an empty list")
    messages = [message_of(turn, name, content, reading) for turn in value]
    _check_results(messages, name)
    return messages


def _check_results(messages: Sequence[Message], name: str) -> None:
    """Results stand in the order of their calls, and none is missing: most chat templates write no ids."""
    called: list[Any] = []
    answered: list[Any] = []
    for message in (*messages, {"role": ASSISTANT[0], "tool_calls": []}):
        if "tool_calls" in message:
            _check_complete(called, answered, name)
            called, answered = [call.get("id") for call in message["tool_calls"]], []
        elif message["role"] == _TOOL:
            _check_order(called, answered, message.get("tool_call_id"), name)
            answered.append(message.get("tool_call_id"))


def _check_order(called: Sequence[Any], answered: Sequence[Any], id: Any, name: str) -> None:
    """A result that names its call stands behind those of earlier calls, where calls have names."""
    last = next((earlier for earlier in reversed(answered) if earlier), None)
    if id and any(called) and id not in called[called.index(last) + 1 if last else 0 :]:
        wanted = "results follow their calls, in the same order"
        raise BadContent(f"`{name}` has a result for the call {id!r:.40} that is out of place: {wanted}")


def _check_complete(called: Sequence[Any], answered: Sequence[Any], name: str) -> None:
    """Where one of several calls has a result, each of them has: it would be read as that of another call.

    Results that do not name their calls are those of the calls at their places, where there are as many.
    """
    if len(called) == len(answered) and all(id in (None, call) for call, id in zip(called, answered, strict=True)):
        return
    found = [id for id in answered if id]
    if found and (lost := [id for id in called if id and id not in found]):
        help = "write the result of every call of a message, or remove rows in which one is lost"
        raise BadContent(
            f"`{name}` has no result for the call {lost[0]!r:.40}, but for {found[0]!r:.40} beside it", help
        )


def message_of(turn: Mapping[str, Any], name: str, content: str, reading: RowReading) -> Message:
    """A message of the column `name`, without what is ignored. Raises BadContent."""
    speaker, text = written_in(content)
    turn = {field: held for field, held in turn.items() if field in (speaker, text) or field not in reading.ignored}
    if speaker not in turn or not (text in turn or turn.get("tool_calls")):
        seen = ", ".join(f"`{field}`" for field in turn) or "none"
        raise BadContent(f"`{name}` has a message without `{speaker}` and `{text}`: its fields are {seen}")
    if turn.get(CALLS) not in NOTHING:
        raise BadContent(f"`{name}` has a message with `{CALLS}`, which OpenAI wrote before it had `tool_calls`")
    role = _role(turn[speaker], name, speaker, content, reading)
    calls = _calls(turn, name)
    said = turn.get(text)
    if turn[speaker] == CALLS:
        calls, said = _called(turn, calls, name), ""
    if calls and role != ASSISTANT[0]:
        raise BadContent(f"`{name}` has a message of the {role} that calls a tool, which only the assistant does")
    message = {"role": role, "content": _text(said, name, text, role, bool(calls))}
    if calls:
        message["tool_calls"] = [_call(call, name) for call in calls]
    if role == _TOOL:
        message |= {field: turn[field] for field in OF_RESULTS if turn.get(field) not in NOTHING}
    if "reasoning" in reading.carries and not reading.takes_out:
        message |= _thought(turn, message)
    return message


def is_learned(turn: Mapping[str, Any], message: Message, reading: RowReading) -> bool:
    """Whether the assistant says it, and no weight says that it is not learned. Raises BadContent."""
    names = [name for name in CARRIED["weight"].fields if name not in reading.ignored]
    given = {name: turn[name] for name in names if turn.get(name) is not None}
    shown = ", ".join(f"`{name}` {value!r:.40}" for name, value in given.items())
    if any(value not in (0, 1) for value in given.values()):
        raise BadContent(f"a message has {shown}: a weight is 0 or 1")
    if len({*given.values()}) > 1:
        raise BadContent(f"a message has {shown}, which contradict each other")
    answers = message["role"] == ASSISTANT[0]
    if 1 in given.values() and not answers:
        raise BadContent(f"a message of the {message['role']} has {shown}, but only what the assistant says is learned")
    return answers and 0 not in given.values()


def is_opening(messages: Sequence[Message]) -> list[bool]:
    """Of each message whether it is said before the first question, and is no system prompt; of none without one."""
    first = next((place for place, message in enumerate(messages) if message["role"] == _USER), 0)
    return [place < first and message["role"] != _SYSTEM for place, message in enumerate(messages)]


def without_thoughts(messages: Sequence[Message]) -> list[Message]:
    """The messages as they are said aloud. Raises BadContent where it is not clear where a thought ends."""
    return [
        {**message, "content": _aloud(message["content"])} if message["role"] == ASSISTANT[0] else message
        for message in messages
    ]


def _aloud(text: str) -> str:
    """An answer without its thought, which ends with </think> and stands before it."""
    first, last = THOUGHT
    thought, end, answer = text.rpartition(last)
    if last in thought or thought.count(first) > 1 or first in (answer if end else text):
        raise BadContent(f"a thought is not between one {first} and one {last}: {text!r:.60}")
    if first in thought and not thought.lstrip().startswith(first):
        raise BadContent(f"something is said before a thought: {text!r:.60}")
    return answer.lstrip() if end else text


def check_ended(messages: Sequence[Message]) -> None:
    """No answer begins with a thought that nothing ends, as one that was cut does. Raises BadContent."""
    first, last = THOUGHT
    for text in (message["content"] for message in messages if message["role"] == ASSISTANT[0]):
        if text.lstrip().startswith(first) and first in text.rpartition(last)[2]:
            help = f"remove rows whose answers were cut within their thoughts, or end these thoughts with {last}"
            raise BadContent(f"an answer has a thought that no {last} ends: {text!r:.60}", help)


def _role(said: Any, name: str, speaker: str, content: str, reading: RowReading) -> str:
    """Who speaks, in the words of chat templates; all who may, if rows carry tools, are told of where another does."""
    usual, more = (SPEAKERS, TOOL_SPEAKERS) if content == FROM_VALUE else (_ROLES, _TOOL_ROLES)
    known = usual | more if "tools" in reading.carries else usual
    if not isinstance(said, str) or said not in known:
        if isinstance(said, str) and said in more:
            why = "prompts hold no turns of tools: the model itself calls those of `alignment.tools`"
            raise BadContent(f"`{name}` has a message with the {speaker} {said!r}, and {why}")
        all_read = ", ".join(usual | more)
        raise BadContent(f"`{name}` has a message with the {speaker} {said!r:.40}, not one of {all_read}")
    return known[said]


def _text(said: Any, name: str, text: str, role: str, calls: bool) -> str:
    """What is said: a text, or texts in parts; nothing need be said where a tool is called."""
    if said is None and not calls:
        advice = "write what is said, or remove the row"
        raise BadContent(f"`{name}` has a message of the {role} whose `{text}` is null: {advice}")
    if isinstance(said, list):
        return "".join(_part(part, name) for part in said)
    if not isinstance(said, str | None):
        raise BadContent(f"`{name}` has a message whose `{text}` is not text")
    return said or ""


def _part(part: Any, name: str) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        shown = part.get("type") if isinstance(part, dict) else part
        help = ("write the thought as a text into the field `reasoning_content` of its message",) * (shown == _THINKING)
        raise BadContent(f"`{name}` has a message with a part that is no text: {shown!r:.40}", *help)
    _check_fields(part, {"type", "text"}, name, "part")
    return part["text"]


def _calls(turn: Mapping[str, Any], name: str) -> list[Any]:
    """The calls of tools in the field of a message."""
    calls = turn.get("tool_calls")
    if calls in NOTHING:
        return []
    if not isinstance(calls, list):
        raise BadContent(f"`{name}` has a message whose `tool_calls` is no list of calls")
    return calls


def _called(turn: Mapping[str, Any], calls: list[Any], name: str) -> list[Any]:
    """The calls of a message whose text they are."""
    if calls or not isinstance(turn.get("value"), str):
        raise BadContent(f"`{name}` has a message from {CALLS} whose calls are not in its text alone")
    try:
        said = json_of(turn["value"])
    except BadJson as error:
        raise BadContent(f"`{name}` has a message from {CALLS} with {error}") from error
    return said if isinstance(said, list) else [said]


def _call(call: Any, name: str) -> Message:
    """A call of a tool: its name, and its arguments as an object."""
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadContent(f"`{name}` has a call without the name of a tool: {call!r:.60}")
    within = "function" in call
    _check_fields(call, _AROUND_CALLS | ({"function"} if within else _OF_CALLS), name, "call")
    _check_fields(function, _OF_CALLS if within else _AROUND_CALLS | _OF_CALLS, name, "call")
    if call.get("type") not in (None, "function"):
        raise BadContent(f"`{name}` has a call of the type {call['type']!r:.40}, not function")
    known = {"id": call["id"]} if call.get("id") not in NOTHING else {}
    arguments = _arguments(function.get("arguments"), name)
    return {**known, "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _arguments(given: Any, name: str) -> dict[str, Any]:
    """An object, or its text."""
    try:
        arguments = with_numbers(json_of(given or "{}") if isinstance(given, str | None) else given)
    except BadJson as error:
        raise BadContent(f"`{name}` has a call with {error}") from error
    if not isinstance(arguments, dict):
        raise BadContent(f"`{name}` has a call whose arguments are no object: {given!r:.60}")
    return arguments


def _thought(turn: Mapping[str, Any], message: Message) -> Message:
    """A thought is one text of the assistant, in one place."""
    names = [name for name in CARRIED["reasoning"].fields if turn.get(name) not in NOTHING]
    shown = " and ".join(f"`{name}`" for name in names)
    if len(names) > 1:
        raise BadContent(f"a message has {shown}: its thought must be in one field")
    for name in names:
        if not isinstance(turn[name], str):
            raise BadContent(f"a message has `{name}` {turn[name]!r:.40}, which is no text")
        if message["role"] != ASSISTANT[0]:
            raise BadContent(f"a message of the {message['role']} has `{name}`, but only the assistant's is learned")
        if parted(message["content"])[1] != message["content"]:
            raise BadContent(f"a message has a thought in `{name}` and another in its text")
    return {"reasoning_content": turn[names[0]]} if names else {}


def _check_fields(value: Mapping[str, Any], known: set[str], name: str, what: str) -> None:
    """Nothing that is said in a part or a call is lost."""
    if lost := [field for field, held in value.items() if field not in known and held not in NOTHING]:
        help = f"remove `{lost[0]}` from every {what}: `data.ignore` passes over columns and fields of messages alone"
        raise BadContent(f"`{name}` has a {what} with `{lost[0]}`, which nothing reads", help)
