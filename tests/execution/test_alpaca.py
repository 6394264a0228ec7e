"""Instructions and inputs of which one says nothing: the question is the other, here as in prepare_data.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES
from test_prepare_data import emitted

from recipec.dataset.conversion import converted
from recipec.dataset.formats import DataShape
from recipec.dataset.messages import RowReading

pytestmark = pytest.mark.executes


@pytest.mark.parametrize(
    ("instruction", "given", "question"),
    [
        ("Add.", "1 and 2", "Add.\n\n1 and 2"),
        ("", "Add 1 and 2.", "Add 1 and 2."),
        ("  ", "Add 1 and 2.", "Add 1 and 2."),
        ("Add 1 and 2.", "", "Add 1 and 2."),
        ("Add 1 and 2.", None, "Add 1 and 2."),
        ("Add 1 and 2.", "<noinput>", "Add 1 and 2."),
        ("Add 1 and 2.", " <noInput> ", "Add 1 and 2."),
        ("What does <noinput> mean?", "In Alpaca, <noinput>.", "What does <noinput> mean?\n\nIn Alpaca, <noinput>."),
    ],
)
def test_the_question_is_what_says_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instruction: str, given: str | None, question: str
) -> None:
    row = {"instruction": instruction, "input": given, "output": "3"}
    script = emitted(tmp_path, BASES["lora-ddp"], monkeypatch)
    assert script.CONVERTERS["instruction"](row)["prompt"][0]["content"] == question
    shape = DataShape.described("instruction", {}, "")
    assert converted(row, shape, RowReading())["prompt"][0]["content"] == question
