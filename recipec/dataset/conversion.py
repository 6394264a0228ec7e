"""A row as prepare_data.py converts it: the columns that a trainer reads, or why the row is refused.

This is the only place where what a row holds is judged when a recipe is compiled. The templates in data/formats and
data/contents.py.j2 judge the same when the rows are prepared; tests/execution/test_rows_agree_with_emitted.py
holds both together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from recipec.axes import CARRIED, KINDS, ROW_FORMATS, Role, RowFormat
from recipec.axes.row_formats import EITHER, FLAGS, TEXTS
from recipec.dataset.contents import (
    ASSISTANT,
    NO_VALUE,
    NOTHING,
    BadContent,
    Incomplete,
    Row,
    Unanswered,
    flag_of,
    lacking,
)
from recipec.dataset.formats import DataShape
from recipec.dataset.json_texts import BadJson, json_of
from recipec.dataset.messages import (
    Message,
    RowReading,
    check_ended,
    is_learned,
    is_opening,
    messages_of,
    without_thoughts,
)
from recipec.dataset.saying import says
from recipec.dataset.tokens import tokens_of

_SYSTEM, _USER, _PROMPT = "system", "user", "prompt"
_SKIP = "skip"
_NO_INPUT = "<noinput>"  # as early versions of Alpaca write that an instruction has no input
_OPENING_WAYS = (
    'to leave out what is said before the first question: `opening_answers = "skip"` under [data]',
    'to train on it like on other answers: `opening_answers = "learn"` under [data]',
)
Converted = dict[str, Any]  # column of the kind -> messages, a text, tokens or a flag; tools


def converted(row: Row, shape: DataShape, reading: RowReading, *, ends: bool = False) -> Converted:
    """The columns that the trainer reads of a row. Raises BadContent; Unanswered where nothing is learned, Incomplete.

    `ends`: of a conversation the last answer alone is scored, after all that was said before it.
    """
    format = ROW_FORMATS[shape.format]
    if reading.skips_incomplete and (lost := lacking(row, format, shape.columns, reading.split_by)):
        raise Incomplete(lost)
    if not format.turns:
        return _plain(row, shape, format)
    made = _conversation(row, shape, reading, ends) if KINDS[format.kind].masked else _apart(row, shape, reading)
    if _SYSTEM in reading.carries:
        _instruct(row, made, reading)
    if reading.system:
        made |= {name: _uninstructed(turns, reading.system) for name, turns in made.items() if isinstance(turns, list)}
    if reading.takes_out:
        made |= {name: without_thoughts(turns) for name, turns in made.items() if isinstance(turns, list)}
    else:
        check_ended([turn for turns in made.values() if isinstance(turns, list) for turn in turns])
    if "tools" in reading.carries:
        made["tools"] = _tools(row, reading)
        _check_offered(made, row, reading)
    if KINDS[format.kind].masked and not ends and not any(map(_answers, made[format.required[0].name])):
        raise Unanswered("the assistant says nothing")
    return made


def asks(made: Converted) -> bool:
    """Whether anything but answers is said in a converted row, and none of the questions before an answer is empty.

    A system prompt is enough to write an answer from where the row has no message of the user.
    """
    turns = _before_last_answer(made["messages"]) if "messages" in made else made.get("prompt")
    if turns is None:
        return True
    told = [message for message in turns if not _answers(message)]
    return any(map(_speaks, told)) and all(_speaks(message) for message in told if message["role"] == _USER)


def _before_last_answer(messages: list[Message]) -> list[Message]:
    answers = [place for place, message in enumerate(messages) if _answers(message)]
    return messages[: answers[-1]] if answers else messages


def _speaks(message: Message) -> bool:
    return says(message["content"])


def _answers(message: Message) -> bool:
    return bool(message["role"] == ASSISTANT[0])


def _plain(row: Row, shape: DataShape, format: RowFormat) -> Converted:
    """Raw text, or tokens that were made elsewhere."""
    if shape.content == TEXTS:
        return {role.becomes: _text(row, shape.columns[role.name]) for role in format.required}
    return dict(tokens_of(row, shape.columns))


def _conversation(row: Row, shape: DataShape, reading: RowReading, ends: bool) -> Converted:
    """A conversation, in which messages that are learned say so; there may be none."""
    ((role, name),) = shape.columns.items()
    if row.get(name) == [] and not ends:
        return {role: []}
    messages = messages_of(row.get(name), name, shape.content, reading)
    if ends:
        if len(messages) < 2 or messages[-1]["role"] != ASSISTANT[0]:
            raise BadContent(f"`{name}` does not end with an answer, which evaluation would score")
        return {"prompt": messages[:-1], "completion": messages[-1:]}
    for turn, message in zip(row[name], messages, strict=True):
        if is_learned(turn, message, reading):
            message["learned"] = True
    opening = is_opening(messages)
    if any(opening) and not reading.opening_answers:
        raise BadContent(f"`{name}` begins with an answer, before anything is asked", *_OPENING_WAYS)
    skips = reading.opening_answers == _SKIP
    return {role: [each for each, opens in zip(messages, opening, strict=True) if not (opens and skips)]}


def _apart(row: Row, shape: DataShape, reading: RowReading) -> Converted:
    """A prompt, and the answers to it."""
    format = ROW_FORMATS[shape.format]
    taught = KINDS[format.kind].taught
    answers = {role: shape.columns[role.name] for role in format.required if role.becomes in taught}
    flags = {role.becomes: _flag(row, shape.columns[role.name]) for role in format.required if role.holds == FLAGS}
    prompt = _prompt(row, shape, reading, list(answers.values()))
    while reading.answers_anew and not taught and len(prompt) > 1 and prompt[-1]["role"] == ASSISTANT[0]:
        prompt = prompt[:-1]
    if not taught and prompt[-1]["role"] == ASSISTANT[0]:
        raise BadContent(f"`{shape.columns[_PROMPT]}` ends with an answer, and the model is to write the next one")
    said = {role.becomes: _answer(row, name, role, shape, reading, prompt) for role, name in answers.items()}
    return {_PROMPT: prompt, **said, **flags}


def _prompt(row: Row, shape: DataShape, reading: RowReading, answers: list[str]) -> list[Message]:
    """What is asked: in columns of its own, or what all answers begin with."""
    format = ROW_FORMATS[shape.format]
    columns = {role: shape.columns[role.name] for role in format.roles if role.name in shape.columns}
    asked = {role: name for role, name in columns.items() if role.becomes == _PROMPT}
    shares = shape.content == EITHER and format.implicit and row.get(shape.columns.get(format.implicit)) in NOTHING
    if shape.implicit_prompt or shares:
        return _shared_beginning(row, shape, reading, answers)
    if len(asked) > 1 or not format.wraps:
        texts = [(role, _text(row, name)) for role, name in asked.items() if role.required or row.get(name) is not None]
        said = [text for role, text in texts if says(text) and (role.required or text.strip().lower() != _NO_INPUT)]
        return [{"role": "user", "content": "\n\n".join(said)}]
    ((_, name),) = asked.items()
    return _said(row, name, "user", shape, reading)


def _said(row: Row, name: str, speaker: str, shape: DataShape, reading: RowReading) -> list[Message]:
    """The messages of a column; a text is one message of the speaker."""
    if shape.content == TEXTS or (shape.content == EITHER and isinstance(row.get(name), str)):
        return [{"role": speaker, "content": _text(row, name)}]
    return messages_of(row.get(name), name, shape.content, reading)


def _shared_beginning(row: Row, shape: DataShape, reading: RowReading, names: list[str]) -> list[Message]:
    """What all answers begin with: everything but their last message, which is the assistant's."""
    _check_alike(row, shape, names)
    first, *others = (messages_of(row.get(name), name, shape.content, reading) for name in names)
    if len(first) < 2 or any(first[:-1] != other[:-1] for other in others):
        implicit, shown = ROW_FORMATS[shape.format].implicit, " and ".join(f"`{name}`" for name in names)
        same = "must be the same prompt with one more message each"
        raise BadContent(f"{shown} {same}, or there must be a column `{implicit}`")
    return first[:-1]


def _check_alike(row: Row, shape: DataShape, names: list[str]) -> None:
    """Answers that say what is asked themselves are all conversations."""
    texts, asks = [name for name in names if isinstance(row.get(name), str)], ROW_FORMATS[shape.format].implicit
    if texts and len(texts) < len(names):
        talk, answers = next(name for name in names if name not in texts), " and ".join(f"`{name}`" for name in names)
        help = f"write what is asked before both answers into a column `{asks}`, and the answers alone into {answers}"
        said = f"`{texts[0]}` holds a text and `{talk}` a conversation, and no `{asks}` says what is asked"
        raise BadContent(said, *[help] * (asks not in row))


def _answer(
    row: Row, name: str, role: Role, shape: DataShape, reading: RowReading, prompt: list[Message]
) -> list[Message]:
    """What the assistant says behind the prompt, which the column may repeat."""
    messages = _said(row, name, ASSISTANT[0], shape, reading)
    told = messages[len(prompt) :] if messages[: len(prompt)] == prompt else messages
    if told and told[0]["role"] != ASSISTANT[0]:
        raise BadContent(
            f"`{name}` neither begins with the assistant's answer nor repeats the prompt",
            *_one_prompt(row, name, shape, reading),
        )
    if any(turn["role"] != ASSISTANT[0] for turn in told):
        raise BadContent(f"`{name}` holds what others say behind an answer, which would be learned")
    return told


def _one_prompt(row: Row, name: str, shape: DataShape, reading: RowReading) -> Iterator[str]:
    """What to write where an answer begins with another question than the prompt, as all answers may."""
    format = ROW_FORMATS[shape.format]
    implicit, answers = format.implicit, [row.get(shape.columns[role.name]) for role in format.required]
    asks = all(isinstance(answer, list) and len(answer) > 1 for answer in answers)
    if implicit in shape.columns and asks:
        names = json.dumps(sorted({shape.columns[implicit], *reading.ignored}), ensure_ascii=False)
        yield f"to read what is asked in `{name}`: `ignore = {names}` under [data]"
    why = "to keep the prompt" if asks else "to make all answers alike"
    yield f"{why}: write the assistant's answer alone into `{name}`"


def _flag(row: Row, name: str) -> bool:
    wanted = flag_of(row.get(name))
    if wanted is None:
        raise BadContent(f"`{name}` holds {_held_in(row, name)}, neither true nor false")
    return wanted


def _text(row: Row, name: str) -> str:
    if not isinstance(row.get(name), str):
        raise BadContent(f"`{name}` holds {_held_in(row, name)}, which is no text")
    return row[name]


def _held_in(row: Row, name: str) -> str:
    return NO_VALUE if row.get(name) is None else f"{row[name]!r:.40}"


def _instruct(row: Row, made: Converted, reading: RowReading) -> None:
    """One system prompt, in a column or in the first message."""
    messages = next(turns for turns in made.values() if isinstance(turns, list))
    own = [messages[0]["content"]] if messages and messages[0]["role"] == _SYSTEM else []
    found = {*own, *(_text(row, name) for name in _held(row, _SYSTEM, reading))}
    if len(found) > 1:
        shown = " and ".join(f"{text!r:.40}" for text in sorted(found))
        raise BadContent(f"the row has several system prompts: {shown}")
    if found and not own:
        messages.insert(0, {"role": _SYSTEM, "content": found.pop()})


def _uninstructed(turns: list[Message], given: str) -> list[Message]:
    """The messages without the system prompt that the recipe gives every row: preparation writes it once."""
    return turns[1:] if turns[:1] == [{"role": _SYSTEM, "content": given}] else turns


def _tools(row: Row, reading: RowReading) -> list[Mapping[str, Any]]:
    """The tools that a row offers: one list of them, or its text."""
    names = list(_held(row, "tools", reading))
    if len(names) > 1:
        raise BadContent(f"{' and '.join(f'`{name}`' for name in names)} both hold tools: one of them must")
    for name in names:
        try:
            tools = json_of(row[name]) if isinstance(row[name], str) else row[name]
        except BadJson as error:
            raise BadContent(f"`{name}` holds {error}") from error
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise BadContent(f"`{name}` holds no list of tools: {row[name]!r:.60}")
        for tool in tools:
            function = tool.get("function", tool)
            if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
                raise BadContent(f"`{name}` has a tool without a name: {tool!r:.60}")
        return tools
    return []


def _check_offered(made: Converted, row: Row, reading: RowReading) -> None:
    """No tool is called that is not among those that the row offers; a row without that column may say them."""
    offered = [tool.get("function", tool)["name"] for tool in made["tools"]]
    turns = [turn for column, value in made.items() if column != "tools" and isinstance(value, list) for turn in value]
    called = [call["function"]["name"] for turn in turns for call in turn.get("tool_calls", ())]
    names_tools = any(name in row for name in CARRIED["tools"].columns if name not in reading.ignored)
    if names_tools and (lost := [name for name in called if name not in offered]):
        among = f"the tools of the row: {', '.join(offered) or 'there are none'}"
        raise BadContent(f"a message calls {lost[0]!r:.40}, which is not among {among:.80}")


def _held(row: Row, carry: str, reading: RowReading) -> Iterator[str]:
    """The columns of a row that hold what is carried."""
    names = (name for name in CARRIED[carry].columns if name not in reading.ignored)
    return (name for name in names if row.get(name) not in NOTHING)
