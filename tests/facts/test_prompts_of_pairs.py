"""PPO in three stages answers the prompts of the pairs where a recipe has no others."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from compiling import Tables, compiled, texts

from recipec.compiler import Compilation

PAIR = {"prompt": "Why?", "chosen": "So.", "rejected": "No."}


def recipe(preferences: Any, **alignment: Any) -> Tables:
    return {
        "recipe": {"name": "case"},
        "goal": {"task": "align"},
        "model": {"name": "Qwen/Qwen2.5-0.5B-Instruct"},
        "data": {"preferences": preferences, "examples": 2_000, "tokens_per_example": 100},
        "hardware": {"gpu": "h100"},
        "alignment": {"kl_control": "high", **alignment},
    }


def found(folder: Path, row: dict[str, str], preferences: Any = "mine.jsonl") -> Compilation:
    (folder / "mine.jsonl").write_text(f"{json.dumps(row)}\n" * 8)
    return compiled(folder, recipe(preferences))


def columns(done: Compilation) -> dict[str, list[str]]:
    """COLUMNS of prepare_data.py: what rows of each format may hold."""
    lines = ast.parse(texts(done)["prepare_data.py"]).body
    named = [line for line in lines if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "COLUMNS"]
    return ast.literal_eval(named[0].value)


def test_two_stages_read_the_same_rows(tmp_path: Path) -> None:
    done = found(tmp_path, PAIR)
    assert [stage.stage.name for stage in done.plan.stages] == ["reward", "ppo"]
    script = texts(done)["prepare_data.py"]
    assert script.count("""train=[{"path": "mine.jsonl"}]""") == 2
    assert columns(done) == {"preference": [*sorted(PAIR)], "prompts": ["chosen", "prompt", "rejected"]}
    assert not [finding for finding in done.diagnostics if finding.code == "W0516"]


def test_what_a_source_says_of_its_answers_is_not_asked_of_prompts(tmp_path: Path) -> None:
    named = {"prompt": "q", "chosen": "good", "rejected": "bad"}
    source = {"path": "mine.jsonl", "format": "preference", "columns": named}
    done = found(tmp_path, {named[role]: text for role, text in PAIR.items()}, source)
    assert columns(done) == {"preference": ["bad", "good", "q"], "prompts": ["bad", "good", "q"]}


def test_other_columns_are_reported_once(tmp_path: Path) -> None:
    done = found(tmp_path, {**PAIR, "topic": "reasons"})
    told = [finding for finding in done.diagnostics if finding.code == "W0516"]
    assert [label.message for finding in told for label in finding.labels] == ["nothing reads `topic`"]


@pytest.mark.parametrize(("level", "stages"), [("high", ["reward", "ppo"]), ("low", ["dpo"])])
def test_the_level_chooses_the_method(tmp_path: Path, level: str, stages: list[str]) -> None:
    (tmp_path / "mine.jsonl").write_text(f"{json.dumps(PAIR)}\n" * 8)
    done = compiled(tmp_path, recipe("mine.jsonl", kl_control=level), only_plan=True)
    assert [stage.stage.name for stage in done.plan.stages] == stages
