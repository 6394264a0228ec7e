"""Pairs whose answers become rows with labels: the plan counts those that prepare_data.py keeps, and so weighs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key
from test_prepare_data import emitted, write

from recipec.rules.evaluation import training_rows

pytestmark = pytest.mark.executes

KTO = {**BASES["kto"], "data": {"preferences": "rows.jsonl", "max_length": 256}, "alignment": {"method": "kto"}}


def pair(question: int, chosen: str, rejected: str) -> dict[str, str]:
    return {"prompt": f"Why {question}?", "chosen": f"For {chosen}.", "rejected": f"For {rejected}."}


ONE_CHOSEN = [pair(n // 3, f"good {n // 3}", f"bad {n}") for n in range(300)]
RANKED = [pair(n, f"{a} {n}", f"{b} {n}") for n in range(100) for a, b in ("AB", "BC", "AC")]
APART = [pair(n, f"good {n}", f"bad {n}") for n in range(100)]


@pytest.fixture(autouse=True)
def all_rows_read(few_rows_sampled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipec.dataset.sample.WHOLE_BYTES", 1_000_000)


@pytest.mark.parametrize(
    ("rows", "kept", "share", "because"),
    [
        (
            ONE_CHOSEN,
            400,
            0.25,
            "200 of about 600 answers repeat others or are labeled both true and false",
        ),
        (RANKED, 200, 0.5, "400 of about 600 answers repeat others"),
        (APART, 200, 0.5, "2 answers in each of 100 preference rows"),
    ],
)
def test_the_answers_that_stay_are_planned_and_weighed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys,
    rows: list[dict[str, Any]],
    kept: int,
    share: float,
    because,
) -> None:
    write(tmp_path / "rows.jsonl", rows)
    script, decisions = emitted(tmp_path, KTO, monkeypatch), compiled(tmp_path, KTO).plan.stages[0].decisions
    assert (decisions["examples"].value, decisions["source_rows"].value) == (kept, kept)
    assert decisions["true_share"].value == share and because in decisions["examples"].because
    script.main()
    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    assert report["rows"] == training_rows({id: each.value for id, each in decisions.items()})
    assert report["labeled_true"] == share * report["rows"]
    assert "CHECK THE WEIGHTS" not in capsys.readouterr().out


def test_weights_of_pairs_are_held_against_the_rows_to_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    write(tmp_path / "rows.jsonl", APART)
    script = emitted(tmp_path, KTO, monkeypatch)
    write(tmp_path / "rows.jsonl", ONE_CHOSEN)
    script.main()
    assert "CHECK THE WEIGHTS of kto: 80 desirable and 240 undesirable" in capsys.readouterr().out


def test_answers_count_as_often_as_the_pairs_of_their_source(tmp_path: Path) -> None:
    """An answer of two sources is one of the source that weighs more: here all chosen answers are."""
    write(tmp_path / "rows.jsonl", APART)
    write(tmp_path / "light.jsonl", [pair(n, f"good {n}", f"worse {n}") for n in range(100)])
    sources = ["light.jsonl", {"path": "rows.jsonl", "weight": 2}]
    decisions = compiled(tmp_path, with_key(KTO, "data.preferences", sources)).plan.stages[0].decisions
    assert (decisions["examples"].value, decisions["source_rows"].value) == (2 * 200 + 100, 300)
    assert decisions["true_share"].value == 2 * 100 / 500


def test_the_answers_of_held_out_pairs_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", APART)
    write(tmp_path / "eval.jsonl", [pair(1000 + n, "good", "bad") for n in range(30)])
    decisions = compiled(tmp_path, with_key(KTO, "data.eval", "eval.jsonl")).plan.stages[0].decisions
    assert (decisions["eval_rows"].value, decisions["eval_data_rows"].value) == (60, 30)
