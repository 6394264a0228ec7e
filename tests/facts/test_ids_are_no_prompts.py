"""No id is proposed as the prompt of pairs, by its name or by what it holds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key


def pair(n: int, talks: bool) -> dict[str, Any]:
    asked = [{"role": "user", "content": f"Why {n}?"}]
    texts = {"chosen": f"So {n}.", "rejected": f"No {n}."}
    return {name: [*asked, {"role": "assistant", "content": text}] if talks else text for name, text in texts.items()}


def proposed(folder: Path, name: str, values: list[str], talks: bool) -> bool:
    """Whether a column beside pairs is proposed as their prompt."""
    rows = [{name: value, **pair(n, talks)} for n, value in enumerate(values)]
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(with_key(BASES["lora-single"], "goal.task", "align"), "data", {"preferences": "mine.jsonl"})
    found = compiled(folder, recipe, only_plan=True).diagnostics
    return any(f'prompt = "{name}"' in line for one in found for line in one.help)


IDS, TEXTS = ([form.format(n) for n in range(40)] for form in ("p{}", "Tell me of {}."))
ONCE = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(40)]


@pytest.mark.parametrize(
    ("name", "values", "talks"),
    [("prompt_id", IDS, True), ("prompt_id", TEXTS, False), ("prompts", TEXTS, True), ("prompts", IDS, False)],
    ids=["beside talks", "by its name", "a prompt beside talks", "by what it holds"],
)
def test_ids_and_second_prompts_are_not_proposed(tmp_path: Path, name: str, values: list[str], talks: bool) -> None:
    assert not proposed(tmp_path, name, values, talks)


@pytest.mark.parametrize("values", [TEXTS, ONCE], ids=["texts", "words"])
def test_prompts_of_other_names_are(tmp_path: Path, values: list[str]) -> None:
    assert proposed(tmp_path, "question_text", values, talks=False)


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ([f"p{n}" for n in range(20)], True),
        ([f"p{n % 7}" for n in range(20)], False),
        ([f"What is {n}?" for n in range(20)], False),
        ([f"p{n}" for n in range(9)], False),
    ],
    ids=["ids", "classes", "questions", "few"],
)
def test_prompts_that_are_ids_are_told(tmp_path: Path, values: list[str], warned: bool) -> None:
    rows = [{"prompt": value, "completion": f"It is {n}."} for n, value in enumerate(values)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", "max_length": 64})
    codes = {one.code for one in compiled(tmp_path, recipe, only_plan=True).diagnostics}
    assert ("W0565" in codes) == warned


def test_the_questions_are_named_by_the_role_beside_other_columns(tmp_path: Path) -> None:
    """What the recipe names otherwise stays: the line that is proposed leads to rows that are read."""
    rows = [{"n": f"p{n}", "ask": f"Why {n}?", "reply": f"So {n}."} for n in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train": "rows.jsonl", "max_length": 64, "columns": {"instruction": "n", "output": "reply"}}
    recipe = with_key(BASES["lora-single"], "data", data)
    (told,) = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code == "W0565"]
    named = tomllib.loads(told.help[0].split("`")[1])
    assert named == {"columns": {"instruction": "ask", "output": "reply"}}
    again = compiled(tmp_path, with_key(recipe, "data.columns", named["columns"]), only_plan=True)
    assert not [one for one in again.diagnostics if one.code == "W0565" or one.code[0] == "E"]
