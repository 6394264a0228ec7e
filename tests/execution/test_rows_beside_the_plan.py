"""prepare_data.py says where there are clearly more or fewer rows than a recipe states, or than was assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from test_prepare_data import chats, emitted, write

from recipec.rules.evaluation import looked_at, own_rows, prepared_rows

pytestmark = pytest.mark.executes


def said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: int, **data: Any
) -> str:
    """What preparation of a file of that many rows says of their number, in one line."""
    users = [{"user": n // 20} if "split" in data else {} for n in range(rows)]
    write(folder / "chat.jsonl", [row | user for row, user in zip(chats(rows), users, strict=True)])
    recipe = BASES["lora-single"]
    for key, value in data.items():
        recipe = with_key(recipe, f"data.{key}", value)
    script = emitted(folder, recipe, monkeypatch)
    capsys.readouterr()
    script.main()
    told = capsys.readouterr().out.partition("CHECK THE ROWS")[2]
    return " ".join(told.split())


def test_planned_and_prepared_rows_are_told_where_they_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = {"eval_fraction": 0.1, "test_fraction": 0.1}
    told = said(tmp_path, monkeypatch, capsys, 60, examples=400, **held_out)
    assert told.startswith("of sft: there are 60, planned: 400.") and "Correct `examples`" in told
    assert said(tmp_path, monkeypatch, capsys, 60, examples=30, **held_out).startswith(
        "of sft: there are 60, planned: 30."
    )
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=62, **held_out)


def test_stated_rows_are_those_before_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = [{"path": "chat.jsonl", "weight": 5}]
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=60, train=train)
    assert said(tmp_path, monkeypatch, capsys, 60, examples=300, train=train).startswith("of sft: ")


def test_whole_groups_that_are_held_out_are_no_other_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = {"eval_fraction": 0.1, "test_fraction": 0.1, "split": {"group": "user"}}
    train = [{"path": "chat.jsonl", "weight": 2}]
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=60, **held_out)
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=60, train=train, **held_out)


def test_counted_rows_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    recipe = with_key(BASES["lora-single"], "data", {"train": "chat.jsonl"})
    assert "planned" not in texts(good(tmp_path, recipe))["prepare_data.py"]
    stated = with_key(recipe, "data.examples", 60)
    assert "planned=" in texts(good(tmp_path, stated))["prepare_data.py"]


PREPARED = ("train", "eval", "test")
PARTS = {"a": {"weight": 0.02}, "b": {"weight": 20}, "c": {"weight": 3, "take": 40}}


@pytest.mark.parametrize("weighed", ["a", "b", "c", "bc"])
def test_rows_are_held_out_before_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weighed: str) -> None:
    """The plan reads, holds out and learns as many rows as preparation, whatever sources weigh."""
    monkeypatch.setattr("recipec.dataset.sample.WHOLE_BYTES", 10_000_000)
    rows = 1_000 if weighed == "a" else 100
    for place, name in enumerate(weighed):
        write(tmp_path / f"{name}.jsonl", chats((place + 1) * rows)[place * rows :])
    write(tmp_path / "held.jsonl", chats(10_070)[10_000:])
    train = [{"path": f"{name}.jsonl", **PARTS[name]} for name in weighed]
    recipe = with_key(BASES["lora-single"], "data", {"train": train, "eval": "held.jsonl", "max_length": 256})
    script, stage = emitted(tmp_path, recipe, monkeypatch), compiled(tmp_path, recipe).plan.stages[0]
    script.main()
    report = json.loads((tmp_path / "data/sft/report.json").read_text())
    value = {id: decision.value for id, decision in stage.decisions.items()}
    assert (looked_at(value, "eval"), looked_at(value, "test")) == (70, report["test"]["rows"])
    assert own_rows(value) == pytest.approx(report["train"]["rows"], rel=0.05)
    read = report["train"]["read"] + report["eval"]["read"]
    told = next(part.because for part in stage.parts if part.name == "data preparation")
    assert told.endswith(f"reads {read:,} rows")
    assert prepared_rows(value) == pytest.approx(sum(report[name]["rows"] for name in report if name in PREPARED), 0.05)


def test_a_small_weight_leaves_rows_to_train_on(tmp_path: Path) -> None:
    """Of 20 rows 2 and 2 are held out; of the others one is learned, and none is missing."""
    write(tmp_path / "few.jsonl", chats(20))
    data = {"train": [{"path": "few.jsonl", "weight": 0.02}], "eval_fraction": 0.1, "test_fraction": 0.1}
    recipe = with_key(BASES["lora-single"], "data", data)
    decisions = good(tmp_path, recipe).plan.stages[0].decisions
    assert own_rows({id: decision.value for id, decision in decisions.items()}) == 1
