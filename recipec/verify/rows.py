"""The rows that a bundle reads, told from its own prepare_data.py, and synthetic ones that are easy to learn."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipec.verify.bundle import assigned, columns_read, function, literal_keywords

Row = dict[str, Any]
# The order in which each format's converter reads its roles; optional roles are missing when fewer columns are read.
_ROLES = {
    "text": ("text",),
    "instruction": ("instruction", "input", "output"),
    "chat": ("messages",),
    "prompt-completion": ("prompt", "completion"),
    "preference": ("prompt", "chosen", "rejected"),
}
_OPTIONAL = {"instruction": "input", "preference": "prompt"}


@dataclass(frozen=True, slots=True)
class Split:
    """The column that rows are split by, where the recipe names one."""

    column: str
    classes: bool  # every class goes to both sides, so that there must be few of them


@dataclass(frozen=True, slots=True)
class StageData:
    """What one stage reads."""

    stage: str
    format: str
    columns: dict[str, str]  # role -> column
    content: str  # strings | messages | from-value
    sources: tuple[dict[str, Any], ...]  # as prepare_data.py writes them, of all splits
    max_length: int


@dataclass(frozen=True, slots=True)
class BundleData:
    """What the whole bundle reads."""

    stages: tuple[StageData, ...]
    split: Split | None


def bundle_data(script: Path) -> BundleData:
    """The data that the prepare_data.py at `script` reads; raises ValueError when its stages cannot be told."""
    stages = assigned(script, "STAGES")
    if not isinstance(stages, ast.List):
        raise ValueError(f"{script.name} has no list STAGES")
    calls = [node for node in stages.elts if isinstance(node, ast.Call)]
    return BundleData(tuple(_stage(script, literal_keywords(call)) for call in calls), _split(script))


def _stage(script: Path, given: dict[str, Any]) -> StageData:
    format = given["format"]
    converter = function(script, f"from_{format.replace('-', '_')}")
    if converter is None or format not in _ROLES:
        raise ValueError(f"{script.name} has no converter for {format} rows that is known here")
    sources = [source for part in ("train", "eval", "test") for source in given.get(part) or ()]
    columns = _columns(format, columns_read(converter))
    content = _content(format, ast.unparse(converter), "apply_chat_template" in script.read_text(encoding="utf-8"))
    return StageData(given["name"], format, columns, content, tuple(sources), given["max_length"])


def _columns(format: str, read: list[str]) -> dict[str, str]:
    roles = _ROLES[format]
    if len(read) < len(roles):
        roles = tuple(role for role in roles if role != _OPTIONAL.get(format))
    return dict(zip(roles, read, strict=True))


def _content(format: str, converter: str, renders: bool) -> str:
    """Whether answers are strings or messages: a converter that builds messages is given strings."""
    if format == "chat":
        return "from-value" if "['from']" in converter else "messages"
    if format in ("text", "instruction") or "'role'" in converter:
        return "strings"
    return "messages" if renders else "strings"


def _split(script: Path) -> Split | None:
    column = assigned(script, "SPLIT_BY")
    if not isinstance(column, ast.Constant):
        return None
    return Split(column.value, "stratify_by_column" in script.read_text(encoding="utf-8"))


_SUBJECTS = [
    "apple",
    "boat",
    "candle",
    "door",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
    "lamp",
]
_VERBS = [
    "opens",
    "closes",
    "carries",
    "follows",
    "finds",
    "leaves",
    "lifts",
    "moves",
    "paints",
    "repairs",
    "sells",
    "washes",
]
_OBJECTS = [
    "bridge",
    "castle",
    "drum",
    "elephant",
    "feather",
    "glass",
    "hammer",
    "ink",
    "jar",
    "key",
    "ladder",
    "mirror",
]
_GOOD, _BAD = ["certainly", "gladly", "warmly", "clearly", "kindly"], ["never", "badly", "coldly", "vaguely", "rudely"]
_TOKENS_PER_SENTENCE = 16  # with the stand-in's small vocabulary, chat markers not counted


def sample_rows(data: StageData, count: int, split: Split | None, seed: int = 0) -> list[Row]:
    """`count` rows with different questions; the same seed gives the same rows."""
    rng = random.Random(f"{data.stage} {seed}")
    rows = [_row(data, index, rng) for index in range(count)]
    if split:
        for index, row in enumerate(rows):
            row[split.column] = f"2024-01-{1 + (index % 4 if split.classes else index // 8 % 28):02d}"
    return rows


def _row(data: StageData, index: int, rng: random.Random) -> Row:
    question = f"{_sentence(rng)} number {index}"
    build = {"text": _text, "instruction": _instruction, "chat": _chat, "preference": _preference}
    return build.get(data.format, _pair)(data, question, rng)


def _sentence(rng: random.Random) -> str:
    return f"the {rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} the {rng.choice(_OBJECTS)}"


def _answer(question: str, words: list[str]) -> str:
    """Words that follow from the question, so that there is something to learn."""
    return f"{words[len(question) % len(words)]} {question.split()[1]} {question.split()[-3]}"


def _text(data: StageData, question: str, rng: random.Random) -> Row:
    sentences = max(1, min(6, data.max_length // (2 * _TOKENS_PER_SENTENCE)))
    return {data.columns["text"]: ". ".join([question, *(_sentence(rng) for _ in range(sentences - 1))])}


def _instruction(data: StageData, question: str, rng: random.Random) -> Row:
    values = {"instruction": question, "input": rng.choice(("", "shortly")), "output": _answer(question, _GOOD)}
    return {column: values[role] for role, column in data.columns.items()}


def _pair(data: StageData, question: str, rng: random.Random) -> Row:
    return {
        data.columns["prompt"]: _said(data, "user", question),
        data.columns["completion"]: _said(data, "assistant", _answer(question, _GOOD)),
    }


def _chat(data: StageData, question: str, rng: random.Random) -> Row:
    turns = [("user", question), ("assistant", _answer(question, _GOOD))]
    if data.content == "from-value":
        people = {"user": "human", "assistant": "gpt"}
        return {data.columns["messages"]: [{"from": people[role], "value": text} for role, text in turns]}
    return {data.columns["messages"]: [{"role": role, "content": text} for role, text in turns]}


def _preference(data: StageData, question: str, rng: random.Random) -> Row:
    answers = {"chosen": _answer(question, _GOOD), "rejected": _answer(question, _BAD)}
    if "prompt" in data.columns:
        said = {role: _said(data, "assistant", text) for role, text in answers.items()}
        said["prompt"] = _said(data, "user", question)
    else:
        asked = _said(data, "user", question)
        said = {role: [*asked, *_said(data, "assistant", text)] for role, text in answers.items()}
    return {column: said[role] for role, column in data.columns.items()}


def _said(data: StageData, role: str, text: str) -> Any:
    return [{"role": role, "content": text}] if data.content == "messages" else text
