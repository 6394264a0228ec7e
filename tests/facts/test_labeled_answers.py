"""Conversations and instructions with a label, as LLaMA-Factory has them for KTO, lead to rows that KTO learns from."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compiling import BASES, compiled, with_key

from recipec.cli.group import recipec
from recipec.dataset.labeled import labeled_answers
from recipec.diagnostics.model import Diagnostic

TALK = [{"role": "user", "content": "Why {}?"}, {"role": "assistant", "content": "So {}."}]
ROWS = {
    "messages": ({"messages": TALK}, "label"),
    "alpaca": ({"instruction": "Explain {}.", "input": "Briefly.", "output": "So {}."}, "kto_tag"),
}


def written(folder: Path, kind: str) -> None:
    row, label = ROWS[kind]
    rows = [json.loads(json.dumps(row).replace("{}", str(n))) | {label: n % 3 > 0} for n in range(60)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def errors(folder: Path, data: dict[str, Any], task: str) -> list[Diagnostic]:
    base = BASES["kto"] if task == "align" else BASES["lora-single"]
    recipe = with_key(base, "data", {**data, "max_length": 64})
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code[0] == "E"]


@pytest.mark.parametrize("kind", ROWS)
def test_a_label_leads_to_rows_that_kto_learns_from(tmp_path: Path, kind: str) -> None:
    written(tmp_path, kind)
    (found,) = errors(tmp_path, {"train": "rows.jsonl"}, "instruct")
    assert found.code == "E0308" and '`task = "align"` under [goal]' in found.help[0]
    subprocess.run(["bash", "-c", re.findall("`(python3 .*?)`", found.help[0])[0]], cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    asked = "Explain 0.\n\nBriefly." if kind == "alpaca" else [{"role": "user", "content": "Why 0?"}]
    assert (first["prompt"], first["label"]) == (asked, False) and first.keys() == {"prompt", "completion", "label"}
    assert not errors(tmp_path, {"preferences": "rows.new.jsonl"}, "align")


@pytest.mark.parametrize("kind", ROWS)
def test_preferences_of_that_form_are_refused_with_the_command(tmp_path: Path, kind: str) -> None:
    written(tmp_path, kind)
    (found,) = errors(tmp_path, {"preferences": "rows.jsonl"}, "align")
    assert found.code == "E0305" and "rewrite the rows" in found.help[0]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("task", [[], ["--task", "align"]], ids=["proposed", "asked"])
def test_init_writes_labeled_rows_as_preferences(tmp_path: Path, kind: str, task: list[str]) -> None:
    written(tmp_path, kind)
    flags = ["init", str(tmp_path / "new"), "--data", str(tmp_path / "rows.jsonl"), "--gpu", "h100", "--yes", *task]
    CliRunner().invoke(recipec, flags)
    text = (tmp_path / "new/recipe.toml").read_text()
    recipe = tomllib.loads(text)
    assert recipe["goal"]["task"] == "align" and "preferences" in recipe["data"] and "train" not in recipe["data"]
    assert "# to learn which answers are good" in text


def test_rows_that_nobody_labeled_do_not_hide_the_labels_of_others(tmp_path: Path) -> None:
    """Few users press a thumb; supervised training would learn what the others were shown down for."""
    rows = [{"messages": TALK, "thumb": ("up", None, "down")[n % 3]} for n in range(60)]
    text = "".join(json.dumps(row).replace("{}", str(n)) + "\n" for n, row in enumerate(rows))
    (tmp_path / "rows.jsonl").write_text(text)
    (found,) = errors(tmp_path, {"preferences": "rows.jsonl"}, "align")
    assert found.code == "E0305" and "by `thumb`, rewrite the rows" in found.help[0]
    assert not [line for line in found.help if "goal.task" in line]
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", "max_length": 64})
    (told,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "W0516"]
    assert "by `thumb`, rewrite the rows" in told.help[0] and '`task = "align"` under [goal]' in told.help[0]
    for line in (found.help[0], told.help[0]):
        assert ", and leave out rows without a label (20 of 60 sampled): `" in line
        command = re.findall("`((?:jq|python3) .*?)`", line)[0]
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        made = [json.loads(row) for row in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
        assert [row["label"] for row in made] == ["up", "down"] * 20
        assert not errors(tmp_path, {"preferences": "rows.new.jsonl"}, "align")


THANKS, QUESTION = {"role": "user", "content": "Thanks."}, {"role": "user", "content": "Are you there?"}
CARRIED = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("label", ["label", "thumb"])
@pytest.mark.parametrize("task", ["instruct", "align"])
def test_conversations_are_cut_at_the_last_answer_which_is_said(tmp_path: Path, label: str, task: str) -> None:
    """Every fourth conversation ends with the user, but not the first; in every fifth nobody answers."""
    first = {"role": "assistant", "content": "First {}.", "reasoning_content": "Well, {}."}
    said = [CARRIED, TALK[0], first, QUESTION, {"role": "assistant", "content": "So {}."}]
    rows: list[dict[str, Any]] = [
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "messages": [CARRIED, QUESTION] if n % 5 == 4 else [*said, *[THANKS] * (n % 4 == 1)],
            label: ("up", "down")[n % 2],
        }
        for n in range(60)
    ]
    rows = [json.loads(json.dumps(row).replace("{}", str(n))) for n, row in enumerate(rows)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section, base = ("train", "lora-single") if task == "instruct" else ("preferences", "kto")
    recipe = with_key(BASES[base], "data", {section: "rows.jsonl", "max_length": 64})
    found = compiled(tmp_path, recipe, only_plan=True).diagnostics
    line = next(line for each in found for line in each.help if "which answers are good" in line)
    read = 48 if task == "instruct" else 60  # conversations without an answer have a finding of their own
    assert f"up to the last answer of each conversation (12 of {read} sampled go on)" in line
    assert (", and leave out conversations without an answer (12 of 60 sampled): `" in line) == (read == 60)
    assert read == 60 or any("12 of 60 sampled rows" in each.title for each in found)
    subprocess.run(["bash", "-c", re.findall("`(python3 .*?)`", line)[0]], cwd=tmp_path, check=True)
    made = [json.loads(row) for row in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    kept = [row for n, row in enumerate(rows) if n % 5 != 4]
    assert [[*row["prompt"], *row["completion"]] for row in made] == [row["messages"][:5] for row in kept]
    assert all([turn["role"] for turn in row["completion"]] == ["assistant"] for row in made)
    assert [(row["label"], row["tools"]) for row in made] == [(row[label], row["tools"]) for row in kept]
    new = {"preferences": "rows.new.jsonl", "reasoning": "keep"}
    assert not errors(tmp_path, new, "align")


def test_columns_that_a_command_writes_over_are_named(tmp_path: Path) -> None:
    row = {"messages": TALK, "prompt": "Is it {}?", "kto_tag": True}
    rows = [json.dumps(row | {"kto_tag": n % 2 == 0}).replace("{}", str(n)) for n in range(60)]
    (line,) = labeled_answers([json.loads(row) for row in rows], "rows.jsonl:1")
    assert "of each conversation, in place of what `prompt` holds: `" in line
