"""The plan counts the tokens of answers with thoughts as prepare_data.py does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import good
from test_carried import asked, recipe, said, tokenizer_of
from test_prepare_data import Words, emitted, write

from recipec.facts.token_size import BYTES_PER_TOKEN

pytestmark = pytest.mark.executes

TURNS = 4


class AsPlanned(Words):
    """The chat template of Qwen3, and tokens of the size that plans assume."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.apply_chat_template = tokenizer_of(rows).apply_chat_template

    def __call__(self, texts: list[str], **_: Any) -> dict[str, list[list[str]]]:
        return {"input_ids": [["token"] * round(len(text.encode()) / BYTES_PER_TOKEN) for text in texts]}


def thinking(number: int, field: str) -> dict[str, Any]:
    def answer(turn: int) -> dict[str, Any]:
        thought, text = f"Thought {number} {turn}. " * 40, f"Answer {number} {turn}. " * 10
        return said(text, **{field: thought}) if field else said(f"<think>\n{thought}\n</think>\n\n{text}")

    more = [turn for n in range(1, TURNS) for turn in ({"role": "user", "content": f"And {n}? " * 10}, answer(n))]
    return asked(f"Question {number}? " * 10, answer(0), *more)


@pytest.mark.parametrize("field", ["reasoning_content", ""], ids=["in a field", "in the text"])
def test_earlier_thoughts_are_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """Every answer is a row with its own thought; the template shows none of those before its question."""
    rows = [thinking(number, field) for number in range(40)]
    write(tmp_path / "chat.jsonl", rows)
    made = recipe(reasoning="keep", max_length=4096)
    del made["data"]["examples"], made["data"]["tokens_per_example"]
    planned = good(tmp_path, made).plan.stages[0].decisions["tokens_per_example"].value
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = AsPlanned(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    report = json.loads((tmp_path / "data/sft/report.json").read_text())
    prepared = [sum(report[part][count] for part in ("train", "eval", "test")) for count in ("tokens", "rows")]
    assert prepared[1] == 40 * TURNS
    assert planned == pytest.approx(prepared[0] / prepared[1], rel=0.07)
