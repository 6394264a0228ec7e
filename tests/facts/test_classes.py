"""Rows of a classifier: a text, and beside it the class that a model is to answer with."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compiling import BASES, compiled, good

from recipec.cli.group import recipec
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
    ("classes", "said"),
    [((0, 1), "numbers"), ((False, True), "true and false"), ((0, True), "numbers and true and false")],
)
def test_classes_that_are_no_text_are_refused_with_a_command_that_writes_them(
    tmp_path: Path, classes: tuple[Any, Any], said: str
) -> None:
    (found,) = errors(tmp_path, labeled(classes), columns=ANSWERED)
    (help,) = [line for line in found.help if line.startswith("write ")]
    assert found.code == "E0304" and said in help
    subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", help)[0]], cwd=tmp_path, check=True)
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


CLASSES = [("complaint", "praise"), ("0", "1"), (0, 1), (False, True), ("no", "yes"), ("negative", "positive")]


def line_of(help: tuple[str, ...], key: str) -> str:
    return next(found[1] for line in help if (found := re.search(rf"`{key} = (.*?)`", line)))


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_class_beside_a_text_is_shown_in_both_readings(tmp_path: Path, classes: tuple[Any, Any], kind: str) -> None:
    (found,) = errors(tmp_path, labeled(classes), kind)
    assert (found.code, found.title) == ("E0305", "rows of data.train can be read in two ways")
    assert found.labels[0].message.count('"Order 0 is late."') == 2
    assert line_of(found.help, "columns") == '{ prompt = "text", completion = "label" }'
    assert line_of(found.help, "format") == '"text"' and line_of(found.help, "ignore") == '["label"]'
    assert ("python3" in found.help[0]) == (kind == "jsonl" and not isinstance(classes[0], str))
    assert not errors(tmp_path, labeled(classes), kind, format="text", ignore=["label"])


@pytest.mark.parametrize(
    ("name", "value"),
    [("answer", "So {}."), ("summary", "Late {}."), ("bot_reply", "So {}."), ("labels", ["late", "{}"])],
)
def test_an_answer_beside_a_text_is_shown_in_both_readings(tmp_path: Path, name: str, value: Any) -> None:
    """Also a list of classes, which a command writes as text."""
    row = json.dumps({"text": "Order {} is late.", name: value})
    rows = [json.loads(row.replace("{}", str(n))) for n in range(40)]
    (found,) = errors(tmp_path, rows)
    assert (found.code, found.title) == ("E0305", "rows of data.train can be read in two ways")
    assert line_of(found.help, "columns") == f'{{ prompt = "text", completion = "{name}" }}'
    assert not errors(tmp_path, rows, format="text", ignore=[name])
    if isinstance(value, list):
        subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", found.help[0])[0]], cwd=tmp_path, check=True)
        rows = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert not errors(tmp_path, rows, columns={"prompt": "text", "completion": name})


def test_init_proposes_that_the_model_answers_a_text(tmp_path: Path) -> None:
    recipe(tmp_path, [{"id": n, "text": f"Order {n} is late.", "summary": f"Late {n}."} for n in range(40)])
    flags = ["init", str(tmp_path / "new"), "--data", str(tmp_path / "rows.jsonl"), "--gpu", "h100", "--yes"]
    CliRunner().invoke(recipec, flags)
    tables = tomllib.loads((tmp_path / "new" / "recipe.toml").read_text())
    assert tables["data"]["columns"] == {"prompt": "text", "completion": "summary"}
    assert tables["goal"]["task"] == "instruct"


def test_rows_that_are_split_by_their_class_are_no_less_ambiguous(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, labeled(("a", "b")), split={"stratify": "label"})
    assert found.code == "E0305"


@pytest.mark.parametrize(("text", "label"), [("Text", "Label"), ("review", "sentiment"), ("question", "class")])
def test_other_names_of_text_and_class_are_told_with_the_line_that_works(tmp_path: Path, text: str, label: str) -> None:
    rows = labeled(("good", "bad"), label, text)
    (found,) = errors(tmp_path, rows, "csv")
    (said,) = (line for line in found.help if "to train a model that answers" in line)
    assert line_of((said,), "columns") == f'{{ prompt = "{text}", completion = "{label}" }}'
    assert not errors(tmp_path, rows, "csv", columns={"prompt": text, "completion": label})


@pytest.mark.parametrize(
    ("beside", "keys"),
    [
        ({"source": lambda n: "ab"[n % 2]}, {}),
        ({"label": lambda n: f"id-{n}"}, {}),
        ({"label": lambda n: "ab"[n % 2]}, {"format": "text"}),
        ({"label": lambda n: "ab"[n % 2]}, {"columns": {"text": "text"}}),
        ({"label": lambda n: n % 2}, {"format": "text"}),
    ],
    ids=["no name of a class", "no two rows alike", "format", "columns", "numbers"],
)
def test_other_columns_beside_texts_are_a_warning(tmp_path: Path, beside: dict[str, Any], keys: dict[str, Any]) -> None:
    ((name, value),) = beside.items()
    rows = [{"text": f"Chapter {n}.", name: value(n)} for n in range(40)]
    found = compiled(tmp_path, recipe(tmp_path, rows, **keys), only_plan=True).diagnostics
    (warned,) = [finding for finding in found if finding.code in ("W0516", "E0305", "E0308")]
    assert warned.code == "W0516"
    offered = [line for line in warned.help if "completion =" in line]
    assert bool(offered) == (name == "source" or "columns" in keys)


def test_continued_pretraining_has_no_second_reading(tmp_path: Path) -> None:
    tables = recipe(tmp_path, labeled(("a", "b"))) | {"goal": {"task": "continue-pretrain"}}
    assert not [found for found in compiled(tmp_path, tables, only_plan=True).diagnostics if found.code == "E0305"]


def test_init_proposes_that_the_model_answers_with_the_class(tmp_path: Path) -> None:
    recipe(tmp_path, labeled(("a", "b")))
    for task, wanted in (("", True), ("continue-pretrain", False)):
        given = [f"--task={task}"] * bool(task)
        folder = tmp_path / (task or "proposed")
        flags = ["init", str(folder), "--data", str(tmp_path / "rows.jsonl"), "--gpu", "h100", "--yes", *given]
        CliRunner().invoke(recipec, flags)
        tables = tomllib.loads((folder / "recipe.toml").read_text())
        assert tables["data"].get("columns") == (ANSWERED if wanted else None)
        assert tables["goal"]["task"] == (task or "instruct")


def test_init_leaves_out_rows_without_a_class_where_it_is_the_answer(tmp_path: Path) -> None:
    """The first row has no class, so that its column is not in it."""
    rows = labeled(("a", "b"))
    rows = [{"text": row["text"]} if n % 4 == 0 else row for n, row in enumerate(rows)]
    recipe(tmp_path, rows)
    for task, wanted in (("instruct", "skip"), ("continue-pretrain", None)):
        flags = ["init", str(tmp_path / task), "--data", str(tmp_path / "rows.jsonl"), "--gpu", "h100", "--yes"]
        CliRunner().invoke(recipec, [*flags, f"--task={task}"])
        data = tomllib.loads((tmp_path / task / "recipe.toml").read_text())["data"]
        assert (data.get("incomplete"), "columns" in data) == (wanted, wanted is not None)


def test_a_class_that_the_first_row_lacks_is_seen(tmp_path: Path) -> None:
    rows = [{"text": "Order 0 is late."}, *labeled(("a", "b"))]
    assert [finding.code for finding in errors(tmp_path, rows)] == ["E0305"]


def test_explain_tells_how_classes_are_learned() -> None:
    said = CliRunner().invoke(recipec, ["explain", "classification"]).output
    assert 'columns = { prompt = "text", completion = "label" }' in said


@pytest.mark.parametrize(
    ("classes", "told"), [(("billing", "Billing "), True), (("bill", "bill "), True), (("bill", "tech"), False)]
)
def test_a_class_that_is_spelled_in_several_ways_is_a_warning(
    tmp_path: Path, classes: tuple[str, str], told: bool
) -> None:
    found = compiled(tmp_path, recipe(tmp_path, labeled(classes), "csv", columns=ANSWERED), only_plan=True).diagnostics
    said = [one.labels[0].message for one in found if one.code == "W0552"]
    assert said == [f'learned as different answers: "{classes[0]}", "{classes[1]}"'] * told
