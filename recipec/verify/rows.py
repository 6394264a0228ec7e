"""The rows that a bundle reads, told from its own prepare_data.py, and synthetic ones that are easy to learn."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.axes import KINDS, ROW_FORMATS, Role, RowFormat
from recipec.axes.row_formats import FROM_VALUE, IDS, MESSAGES, TEXTS
from recipec.verify.bundle import assigned, function, literal_keywords
from recipec.verify.converters import constant, flows, written_flags
from recipec.verify.new_tokens import new_tokens_of

Row = dict[str, Any]
_FURTHER = re.compile(r"-\d+$")  # of the name of a converter: another way to write rows of its format


class NoSample(Exception):
    """The bundle's data cannot be stood in for: the message says why."""


class SplitColumn(Struct, frozen=True):
    """The column that rows are split by, where the recipe names one."""

    column: str
    classes: bool  # every class goes to both sides, so that there must be few of them


class SourceData(Struct, frozen=True):
    """What one source of a stage holds."""

    stage: str
    given: Mapping[str, Any]  # as prepare_data.py writes it
    format: str  # a row of recipec.axes.row_formats
    columns: Mapping[str, str]  # role -> column
    content: str  # what the columns hold: TEXTS, MESSAGES, FROM_VALUE or IDS
    max_length: int
    calls: bool = False  # messages may call tools
    handed: tuple[str, ...] = ()  # columns that rewards read
    hardness: str = ""  # the column that orders the rows; empty where none does
    new_tokens: tuple[str, ...] = ()  # of the bundle: rows have them
    flags: Mapping[bool, str] = {}  # how labels are written; none where they are true and false


class StageData(Struct, frozen=True):
    """What one stage reads: the sources of all splits."""

    stage: str
    sources: tuple[SourceData, ...]
    trained: int  # how many of them, the first ones, are trained on
    held: int  # how many of the next are held out; the rest is neither learned nor held out


class BundleData(Struct, frozen=True):
    """What the whole bundle reads."""

    stages: tuple[StageData, ...]
    split: SplitColumn | None


def bundle_data(script: Path) -> BundleData:
    """The data that the prepare_data.py at `script` reads; raises ValueError when its stages cannot be told."""
    stages = assigned(script, "STAGES")
    if not isinstance(stages, ast.List):
        raise ValueError(f"{script.name} has no list STAGES")
    calls = [node for node in stages.elts if isinstance(node, ast.Call)]
    return BundleData(tuple(_stage(script, literal_keywords(call)) for call in calls), _split(script))


def _stage(script: Path, given: Mapping[str, Any]) -> StageData:
    parts = {part: given.get(part) or () for part in ("train", "eval", "test", "general")}
    sources = tuple(_source(script, given, source) for part in parts.values() for source in part)
    trained, held = len(parts["train"]), len(parts["eval"]) + len(parts["test"])
    return StageData(given["name"], sources, trained, held)


def _source(script: Path, stage: Mapping[str, Any], source: Mapping[str, Any]) -> SourceData:
    """A source, as the converter reads it that it names, or its stage for all of them."""
    name = source.get("format") or stage["format"]
    converter, format = _converter(script, name), ROW_FORMATS.get(_FURTHER.sub("", name))
    if format is None or converter is None:
        raise ValueError(f"{script.name} has no converter for {name} rows that is known here")
    columns = columns_of(format, _own_columns(format, flows(converter)), converter.name)
    content = _content(format, script, converter)
    calls = _may_call(script) and "messages" in columns
    handed = () if KINDS[format.kind].taught else _handed(script)
    hardness, length = stage.get("hardness", ""), stage["max_length"]
    told = (stage["name"], source, format.name, columns, content, length, calls, handed, hardness)
    return SourceData(*told, new_tokens_of(script.parent), written_flags(converter))


def _handed(script: Path) -> tuple[str, ...]:
    """The columns beside a prompt that are handed to rewards."""
    names = assigned(script, "HANDED")
    return tuple(str(constant(node)) for node in names.elts) if isinstance(names, ast.List) else ()


def _may_call(script: Path) -> bool:
    """Whether messages may call tools: their fields are listed."""
    fields = assigned(script, "FIELDS")
    return fields is not None and any(constant(node) == "tool_calls" for node in ast.walk(fields))


def _converter(script: Path, format: str) -> ast.FunctionDef | None:
    """The function that CONVERTERS names for a format."""
    table = assigned(script, "CONVERTERS")
    pairs = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
    names = (value.id for key, value in pairs if constant(key) == format and isinstance(value, ast.Name))
    return next((function(script, name) for name in names), None)


def columns_of(format: RowFormat, made: Mapping[str, Sequence[str]], converter: str) -> dict[str, str]:
    """Role -> column of what a converter makes; raises ValueError where a role or a column is left over.

    What is required is told first: a column that holds the beginning of an answer is the answer's.
    """
    columns: dict[str, str] = {}
    for role in sorted(format.roles, key=lambda role: not role.required):
        free = [column for column in made.get(role.becomes, ()) if column not in columns.values()]
        if free:
            columns[role.name] = min(free, key=lambda column: _strangeness(column, role, format))
        elif role.required:
            raise ValueError(f"{converter} reads no column for the {role.name} of {format.name} rows")
    if unknown := {column for read in made.values() for column in read} - set(columns.values()):
        raise ValueError(f"{converter} reads {', '.join(sorted(unknown))}, which {format.name} rows do not have")
    return {role.name: columns[role.name] for role in format.roles if role.name in columns}


def _own_columns(format: RowFormat, made: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """What a converter makes, in the columns of its format: rows that join another kind are all in one of that."""
    own = {role.becomes for role in format.roles}
    columns = [column for key, read in made.items() if key not in own for column in read]
    return dict.fromkeys(own, columns) if columns and not own & made.keys() else made


def _strangeness(column: str, role: Role, format: RowFormat) -> int:
    """0 for a usual name of the role, 1 for a name that is nobody's, 2 for the usual name of another role."""
    return 0 if column in role.aliases else 1 + any(column in other.aliases for other in format.roles)


def _content(format: RowFormat, script: Path, converter: ast.FunctionDef) -> str:
    """How turns are written: a converter that builds messages is given strings."""
    renders = "apply_chat_template" in script.read_text(encoding="utf-8")
    held = {content for role in format.roles for content in role.holds}
    nodes = [node for part in _with_helpers(script, converter) for node in ast.walk(part)]
    keys = {constant(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    keys |= {constant(node.args[0]) for node in nodes if isinstance(node, ast.Call) and node.args}
    builds = any(
        constant(key) == "role" for node in ast.walk(converter) if isinstance(node, ast.Dict) for key in node.keys
    )
    if FROM_VALUE in held and "from" in keys:
        return FROM_VALUE
    if IDS in held:
        return IDS
    return MESSAGES if MESSAGES in held and (TEXTS not in held or (renders and not builds)) else TEXTS


def _with_helpers(script: Path, start: ast.FunctionDef) -> list[ast.FunctionDef]:
    """A function, and those of the script that it calls, directly or through them."""
    found = {start.name: start}
    waiting = [start]
    while waiting:
        calls = [node.func for node in ast.walk(waiting.pop()) if isinstance(node, ast.Call)]
        for name in (call.id for call in calls if isinstance(call, ast.Name) and call.id not in found):
            helper = function(script, name)
            if helper is not None:
                found[name] = helper
                waiting.append(helper)
    return [*found.values()]


def _split(script: Path) -> SplitColumn | None:
    column = assigned(script, "SPLIT_BY")
    if not isinstance(column, ast.Constant):
        return None
    split = function(script, "split")
    names = {node.id for node in ast.walk(split) if isinstance(node, ast.Name)} if split else set()
    return SplitColumn(column.value, "classes" in names)


_SUBJECTS = ["apple", "boat", "candle", "door", "engine", "forest", "garden", "island", "jacket", "lamp"]
_VERBS = ["opens", "closes", "carries", "follows", "finds", "leaves", "lifts", "moves", "paints", "washes"]
_OBJECTS = ["bridge", "castle", "drum", "elephant", "feather", "glass", "hammer", "ink", "ladder", "mirror"]
GOOD, _BAD = ["certainly", "gladly", "warmly", "clearly", "kindly"], ["never", "badly", "coldly", "vaguely", "rudely"]
TOOL = {
    "name": "look_up",
    "description": "What is known of a word",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
GROUP = 8  # rows that have one value in the column that rows are split by
_FIRST_ID, _IDS = 20, 200  # behind the special tokens; the smallest vocabulary has one for every byte
_LEAST_FOR_TOOLS = 512  # tokens: chat templates write a page around tools, and the small vocabulary needs many for it
_TOKENS_PER_SENTENCE = 16  # with the stand-in's small vocabulary, chat markers not counted


def sample_rows(data: SourceData, count: int, split: SplitColumn | None, seed: int = 0) -> list[Row]:
    """`count` rows with different questions; the same seed gives the same rows. Raises NoSample."""
    rng = random.Random(f"{data.stage} {seed}")
    rows = [_row(data, Example(data, index, rng)) for index in range(count)]
    if split:
        for index, row in enumerate(rows):
            row[split.column] = split_value(split, index)
    return rows


def split_value(split: SplitColumn, index: int) -> str:
    """What the row of this index has in the column that rows are split by: a day."""
    return f"2024-01-{1 + (index % 4 if split.classes else index // GROUP % 28):02d}"


def _row(data: SourceData, example: Example) -> Row:
    """The example in the columns of the user's rows."""
    for role in data.columns:
        if not hasattr(example, role):
            raise NoSample(f"nothing is known to write as the {role} of {data.format} rows")
    row = {column: getattr(example, role)() for role, column in data.columns.items()}
    row |= dict.fromkeys((name for name in data.handed if name not in row), example.judged_by())
    row |= {data.hardness: example.hardness()} if data.hardness else {}
    return row | {"tools": [TOOL]} if example.calls else row


class Example:
    """A question, a right and a wrong answer. One method for each role that a column can have, by its name."""

    def __init__(self, data: SourceData, index: int, rng: random.Random) -> None:
        self._data, self._index, self._rng = data, index, rng
        new = f" {data.new_tokens[index % len(data.new_tokens)].strip()}" if data.new_tokens else ""
        self._question = f"{_sentence(rng)}{new} number {index}"
        self._right = "label" not in data.columns or index % 2 == 0  # whether its one answer is the right one
        self.calls = data.calls and data.max_length >= _LEAST_FOR_TOOLS and index % 2 == 0

    def text(self) -> str:
        sentences = max(1, min(6, self._data.max_length // (2 * _TOKENS_PER_SENTENCE)))
        return ". ".join([self._question, *(_sentence(self._rng) for _ in range(sentences - 1))])

    def hardness(self) -> float:
        return self._index % 7 / 7

    def instruction(self) -> str:
        return self._question

    def input(self) -> str:
        return self._rng.choice(("", "shortly"))

    def output(self) -> str:
        return self._answer(GOOD)

    def messages(self) -> list[Row]:
        turns = [("user", self._question), ("assistant", self._answer(GOOD))]
        if self.calls:
            return self._calling(*(text for _, text in turns))
        if self._data.content == FROM_VALUE:
            people = {"user": "human", "assistant": "gpt"}
            return [{"from": people[role], "value": text} for role, text in turns]
        return [{"role": role, "content": text} for role, text in turns]

    def _calling(self, question: str, answer: str) -> list[Row]:
        """The question, a call of the tool, its result and the answer."""
        arguments = {"word": question.split()[1]}
        if self._data.content == FROM_VALUE:
            call = json.dumps({"name": TOOL["name"], "arguments": arguments})
            turns = [("human", question), ("function_call", call), ("observation", "known"), ("gpt", answer)]
            return [{"from": speaker, "value": text} for speaker, text in turns]
        call = {"type": "function", "function": {"name": TOOL["name"], "arguments": arguments}}
        return [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "known"},
            {"role": "assistant", "content": answer},
        ]

    def input_ids(self) -> list[int]:
        """Tokens that every vocabulary has, each followed by the next one."""
        length = min(16, self._data.max_length)
        return [_FIRST_ID + (self._index * 7 + place) % _IDS for place in range(length)]

    def labels(self) -> list[int]:
        ids = self.input_ids()
        return [-100] * (len(ids) // 4) + ids[len(ids) // 4 :]

    def attention_mask(self) -> list[int]:
        return [1] * len(self.input_ids())

    def prompt(self) -> Any:
        return self._said("user", self._question)

    def completion(self) -> Any:
        return self._said("assistant", self._answer(GOOD if self._right else _BAD))

    def chosen(self) -> Any:
        return self._after_prompt(GOOD)

    def rejected(self) -> Any:
        return self._after_prompt(_BAD)

    def label(self) -> bool | str:
        return self.flag(self._right)

    def flag(self, wanted: bool) -> bool | str:
        """A label as the rows of the source write it."""
        return self._data.flags.get(wanted, wanted)

    def judged_by(self) -> str:
        """What a reward may compare an answer with."""
        return self._answer(GOOD)

    def _answer(self, words: list[str]) -> str:
        """Words that follow from the question, so that there is something to learn."""
        said = self._question.split()
        return f"{words[len(self._question) % len(words)]} {said[1]} {said[-3]}"

    def _after_prompt(self, words: list[str]) -> Any:
        """An answer, behind the question where no column holds that."""
        answer = self._said("assistant", self._answer(words))
        implicit = ROW_FORMATS[self._data.format].implicit
        return answer if not implicit or implicit in self._data.columns else [*getattr(self, implicit)(), *answer]

    def _said(self, role: str, text: str) -> Any:
        """A text in the form of its column: of a prompt that is a conversation, the model answers the last question."""
        if self._data.content == FROM_VALUE:
            return [{"from": {"user": "human", "assistant": "gpt"}[role], "value": text}]
        return [{"role": role, "content": text}] if self._data.content == MESSAGES else text


def _sentence(rng: random.Random) -> str:
    return f"the {rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} the {rng.choice(_OBJECTS)}"
