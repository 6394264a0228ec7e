"""The plan counts the answers of conversations as prepare_data.py keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, with_key
from test_prepare_data import emitted, write
from test_splits import UNMARKED, conversations

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
    assert f"{counts['duplicates']} of {counts['answers'] - counts['empty']} answers are exact" in planned.because
