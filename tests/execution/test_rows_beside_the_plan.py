"""prepare_data.py says where there are clearly more or fewer rows than a recipe states, or than was assumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key
from test_prepare_data import chats, emitted, write

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


def test_stated_rows_are_those_after_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = [{"path": "chat.jsonl", "weight": 5}]
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=300, train=train)
    assert said(tmp_path, monkeypatch, capsys, 60, examples=60, train=train).startswith("of sft: ")


def test_whole_groups_that_are_held_out_are_no_other_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = {"eval_fraction": 0.1, "test_fraction": 0.1, "split": {"group": "user"}}
    train = [{"path": "chat.jsonl", "weight": 2}]
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=60, **held_out)
    assert not said(tmp_path, monkeypatch, capsys, 60, examples=120, train=train, **held_out)


def test_counted_rows_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    recipe = with_key(BASES["lora-single"], "data", {"train": "chat.jsonl"})
    assert "planned" not in texts(good(tmp_path, recipe))["prepare_data.py"]
    stated = with_key(recipe, "data.examples", 60)
    assert "planned=" in texts(good(tmp_path, stated))["prepare_data.py"]
