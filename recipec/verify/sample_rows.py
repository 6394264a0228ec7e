"""Synthetic training rows in a bundle's own format: small, distinct, and easy to learn."""

from __future__ import annotations

import random
from typing import Any

from recipec.verify.data_shape import Split, StageData

Row = dict[str, Any]
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
