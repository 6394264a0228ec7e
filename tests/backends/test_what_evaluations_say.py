"""evaluate.py says what it measures: losses, scores or rewards, and a merge only where there is one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key


def evaluation(folder: Path, base: str, adaptation: str = "") -> str:
    recipe = with_key(BASES[base], "train.adaptation", adaptation) if adaptation else BASES[base]
    return next(text for path, text in texts(good(folder, recipe)).items() if path.endswith("evaluate.py"))


@pytest.mark.parametrize(
    ("base", "first", "unit"),
    [
        ("lora-single", "the same rows, the same loss, the same questions", "Losses are means over all learned tokens"),
        ("grpo", "the rewards of answers to the same prompts", "Rewards are means over the prompts"),
        ("reward", "the scores of the same rows", ""),
    ],
)
def test_the_docstring_says_what_is_measured(tmp_path: Path, base: str, first: str, unit: str) -> None:
    said = ast.get_docstring(ast.parse(evaluation(tmp_path, base))) or ""
    assert said.splitlines()[0].endswith(f"before and after training: {first}.")
    assert [line for line in said.splitlines() if " are means over " in line] == [
        line for line in said.splitlines() if unit and line.startswith(unit)
    ]
    assert not unit or unit in said


@pytest.mark.parametrize(("adaptation", "merges"), [("lora", True), ("full", False)])
def test_a_merge_is_spoken_of_only_where_there_is_one(tmp_path: Path, adaptation: str, merges: bool) -> None:
    assert ("merge" in evaluation(tmp_path, "grpo", adaptation)) is merges
