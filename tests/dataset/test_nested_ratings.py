"""Ratings in objects of rows and of messages become labels, and are told where supervised fine-tuning reads none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled

Rows = list[dict[str, Any]]
KTO = {**BASES["kto"], "data": {"preferences": "rows.jsonl"}}
SFT = {**BASES["lora-single"], "data": {"train": "rows.jsonl"}}
UP, DOWN, NONE = {"thumb": "up"}, {"thumb": "down"}, None


def talks(given: list[Any], of_turns: bool) -> Rows:
    rows = []
    for n in range(60):
        feedback = {"feedback": given[n % len(given)]}
        answer = {"role": "assistant", "content": f"So {n} it is."} | (feedback if of_turns else {})
        row = {"messages": [{"role": "user", "content": f"Why {n}?"}, answer]}
        rows.append(row | ({} if of_turns else feedback))
    return rows


def helps(folder: Path, recipe: Any, code: str) -> list[str]:
    found = [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code == code]
    return [line for one in found for line in one.help]


@pytest.mark.parametrize("of_turns", [True, False], ids=["of messages", "of rows"])
@pytest.mark.parametrize("given", [[UP, DOWN, NONE], [{"rating": 1}, {"rating": -1}, {"rating": 0}]])
def test_a_rating_in_an_object_becomes_a_label(tmp_path: Path, given: list[Any], of_turns: bool) -> None:
    rows = talks(given, of_turns)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (line,) = helps(tmp_path, KTO, "E0305")
    assert "rates answers" in line and "sft" not in line
    told = [line for line in helps(tmp_path, SFT, "W0516") if "rates answers" in line]
    assert told and '`task = "align"` under [goal]' in told[0]
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert [row["label"] for row in made] == [True, False] * 20
    assert made[1]["prompt"] == [{"role": "user", "content": "Why 1?"}]
    assert made[1]["completion"] == [{"role": "assistant", "content": "So 1 it is."}]


@pytest.mark.parametrize("of_turns", [True, False], ids=["of messages", "of rows"])
def test_what_rows_hold_beside_a_rating_is_kept_and_what_is_left_out_is_said(tmp_path: Path, of_turns: bool) -> None:
    """The user thanks for a third of the answers: what the label is of is still the answer."""
    rows = talks([{"rating": 1}, {"rating": -1}, {"rating": 0}, None], of_turns)
    for n, row in enumerate(rows):
        row["tools"] = json.dumps([{"type": "function", "function": {"name": f"look_up_{n}"}}])
        row["messages"] += [{"role": "user", "content": "Thanks."}] * (n % 3 == 0)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (line,) = helps(tmp_path, KTO, "E0305")
    assert "without a rating (15 of 60 sampled)" in line and 'taken for "not rated" (15 of 60 sampled)' in line
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    kept = [n for n in range(60) if n % 4 < 2]
    assert [row["completion"][0]["content"] for row in made] == [f"So {n} it is." for n in kept]
    assert [row["tools"] for row in made] == [rows[n]["tools"] for n in kept]
    assert [row["label"] for row in made] == [n % 4 == 0 for n in kept]


def test_rows_without_ratings_are_said_to_be_learned_as_good(tmp_path: Path) -> None:
    rows = [{"messages": row["messages"]} for row in talks([UP], of_turns=False)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any("no rating of an answer is read" in line for line in helps(tmp_path, KTO, "E0305"))
