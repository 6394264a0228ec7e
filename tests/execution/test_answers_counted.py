"""The plan counts the answers of conversations as prepare_data.py keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, with_key
from test_prepare_data import emitted, write
from test_splits import UNMARKED, conversations

from recipec.estimate.whole_run import PREPARATION

pytestmark = pytest.mark.executes


def test_the_plan_counts_answers_as_preparation_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three conversations that begin alike the first two answers are there once; silence teaches nothing."""
    rows = [
        {
            "messages": [
                *row["messages"][:4],
                {"role": "user", "content": f"{n}?"},
                {"role": "assistant", "content": end},
            ]
        }
        for row in conversations(20, 2)
        for n, end in enumerate(("One.", "Two.", " " if "of 7" in row["messages"][0]["content"] else "Three."))
    ]
    rows[0]["messages"][1] = rows[0]["messages"][1] | {"weight": 0}  # shown before the next answer as it is elsewhere
    write(tmp_path / "chat.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "model.name", UNMARKED)
    recipe = {**recipe, "data": {"train": "chat.jsonl"}}
    planned = good(tmp_path, recipe).plan.stages[0].decisions["examples"]
    emitted(tmp_path, recipe, monkeypatch).main()
    counts = json.loads((tmp_path / "data/sft/report.json").read_text())["train"]
    assert counts["duplicates"] > 0 < counts["empty"]
    assert planned.value == counts["answers"] - counts["empty"] - counts["duplicates"] == 99
    left_out = f"{counts['duplicates']} are exact duplicates and {counts['empty']} are empty"
    assert f"of {counts['answers']} answers, {left_out}" in planned.because


def test_the_bill_counts_the_answers_of_general_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As preparation makes them: every answer is a row, of general conversations as of those of the task."""
    general = [
        {"messages": [turn | {"content": f"General: {turn['content']}"} for turn in row["messages"]]}
        for row in conversations(100, 10)
    ]
    write(tmp_path / "chat.jsonl", conversations(200, 10))
    write(tmp_path / "own.jsonl", general)
    recipe = with_key(BASES["lora-single"], "model.name", UNMARKED)
    recipe = {**recipe, "data": {"train": "chat.jsonl", "general": "own.jsonl", "replay": 0.1}}
    done = good(tmp_path, recipe)
    stage = done.plan.stages[0]
    (told,) = [part.because for part in stage.parts if part.name == PREPARATION]
    emitted(tmp_path, recipe, monkeypatch).main()
    report = json.loads((tmp_path / "data/sft/report.json").read_text())
    made, read = (sum(report[part][count] for part in ("train", "general")) for count in ("answers", "read"))
    assert (made, read) == (3_000, 300)
    assert stage.decisions["general_rows"].value == report["general"]["answers"]
    assert told == f"prepare_data.py makes {made:,} rows of {read:,}"
