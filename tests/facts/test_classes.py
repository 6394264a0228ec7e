"""Rows of a classifier: a text, and beside it the class that a model is to answer with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good

from recipec.diagnostics.model import Diagnostic

PAIRS_OF_CLASSES = [("complaint", "praise"), ("0", "1"), ("no", "yes"), ("negative", "positive")]
ANSWERED = {"prompt": "text", "completion": "label"}


def labeled(classes: tuple[Any, Any], label: str = "label", text: str = "text") -> list[dict[str, Any]]:
    return [{text: f"Order {n} is late.", label: classes[n % 2]} for n in range(40)]


def recipe(folder: Path, rows: list[dict[str, Any]], kind: str = "jsonl", **keys: Any) -> dict[str, Any]:
    """Supervised fine-tuning on the rows, written as JSON lines or as CSV."""
    lines = [json.dumps(row) for row in rows]
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
    (folder / f"rows.{kind}").write_text("\n".join([*lines, ""]))
    return BASES["lora-single"] | {"data": {"train": f"rows.{kind}", "max_length": 64, **keys}}


def errors(folder: Path, rows: list[dict[str, Any]], kind: str = "jsonl", **keys: Any) -> list[Diagnostic]:
    found = compiled(folder, recipe(folder, rows, kind, **keys), only_plan=True).diagnostics
    return [finding for finding in found if finding.code[0] == "E"]


@pytest.mark.parametrize("classes", PAIRS_OF_CLASSES)
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("stated", [{}, {"format": "prompt-completion"}], ids=["", "format"])
def test_a_class_that_the_recipe_names_as_the_answer_is_learned(
    tmp_path: Path, classes: tuple[str, str], kind: str, stated: dict[str, str]
) -> None:
    done = good(tmp_path, recipe(tmp_path, labeled(classes), kind, columns=ANSWERED, **stated))
    assert [found.code for found in done.diagnostics if found.code in ("E0401", "E0308", "W0516")] == []
    decided = done.plan.stages[0].decisions
    assert (decided["data_format"].value, decided["loss_on"].value) == ("prompt-completion", "completion")


@pytest.mark.parametrize(
    ("classes", "said", "kinds"),
    [((0, 1), "numbers", "numbers"), ((False, True), "true and false", "booleans"), ((0, True), "true", "booleans, n")],
)
def test_classes_that_are_no_text_are_refused_with_a_command_that_writes_them(
    tmp_path: Path, classes: tuple[Any, Any], said: str, kinds: str
) -> None:
    (found,) = errors(tmp_path, labeled(classes), columns=ANSWERED)
    (help,) = [line for line in found.help if line.startswith("write ")]
    assert found.code == "E0304" and said in help and kinds in help
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    subprocess.run(["bash", "-c", re.findall("`(jq .*)`", help)[0]], cwd=tmp_path, check=True)
    written = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert [row["label"] for row in written[:2]] == [json.dumps(value) for value in classes]
    assert not errors(tmp_path, written, columns=ANSWERED)


def test_a_column_that_is_one_role_is_not_another_one_by_its_name(tmp_path: Path) -> None:
    rows = [{"input": f"Add 1 and {n}.", "output": str(n + 1)} for n in range(40)]
    columns = {"instruction": "input", "output": "output"}
    done = good(tmp_path, recipe(tmp_path, rows, columns=columns))
    shape = done.facts.data["train"].shape
    assert (shape.format, shape.columns["instruction"], shape.columns["input"]) == ("instruction", "input", "context")


def test_a_label_beside_questions_and_answers_is_still_refused(tmp_path: Path) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": "So.", "label": n % 2 == 0} for n in range(40)]
    (found,) = errors(tmp_path, rows)
    assert found.code == "E0401" and "`label`" in found.title
