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
    assert found.code == "E0305" and "rewrite the rows: `" in found.help[0]


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
    assert found.code == "E0305" and "label: .thumb" in found.help[0]
    assert not [line for line in found.help if "goal.task" in line]
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", "max_length": 64})
    (told,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "W0516"]
    assert "by `thumb`, rewrite the rows" in told.help[0] and '`task = "align"` under [goal]' in told.help[0]
    for line in (found.help[0], told.help[0]):
        command = re.findall("`((?:jq|python3) .*?)`", line)[0]
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        made = [json.loads(row) for row in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
        assert [row["label"] for row in made] == ["up", "down"] * 20
        assert not errors(tmp_path, {"preferences": "rows.new.jsonl"}, "align")
