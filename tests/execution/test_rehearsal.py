"""What becomes of each row is told alike when a recipe is compiled and when its rows are prepared."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, with_key
from test_prepare_data import emitted, write

from recipec.facts import data
from recipec.facts.rehearsal import DUPLICATE, SILENT, RehearsedRows, rehearsed

pytestmark = pytest.mark.executes

QUESTIONS = [f"Why {n}?" for n in range(60)]
# Behind 60 rows that stay: each reason alone, and rows for which two hold, of which the first counts.
PAIRS = [
    *({"prompt": asked, "chosen": "So.", "rejected": "No."} for asked in QUESTIONS),
    *[{"prompt": "Mute?", "chosen": "", "rejected": "No."}] * 2,
    {"prompt": " ", "chosen": "So.", "rejected": "No."},
    {"prompt": "Both mute?", "chosen": "", "rejected": ""},
    *[{"prompt": "Why 1?", "chosen": "So.", "rejected": "No."}] * 2,
    *[{"prompt": "Equal?", "chosen": "So.", "rejected": "So. "}] * 3,
    *[{"prompt": "Either?", "chosen": "So.", "rejected": "No."}] * 2,
    {"prompt": "Either?", "chosen": "No.", "rejected": "So."},
]
LABELED = [
    *({"prompt": asked, "completion": "So.", "label": n % 2 == 0} for n, asked in enumerate(QUESTIONS)),
    *[{"prompt": "Mute?", "completion": "", "label": True}] * 2,
    {"prompt": "", "completion": "So.", "label": True},
    *[{"prompt": "Why 1?", "completion": "So.", "label": False}] * 2,
    *[{"prompt": "Either?", "completion": "So.", "label": True}] * 2,
    {"prompt": "Either?", "completion": "So.", "label": False},
]


@pytest.mark.parametrize(
    ("method", "rows", "lost"),
    [
        ("dpo-full", PAIRS, {"empty": 4, "duplicates": 5, "equal": 1, "contradictory": 2}),
        ("kto", LABELED, {"empty": 3, "duplicates": 3, "contradictory": 2}),
    ],
)
def test_rows_are_left_out_for_the_reasons_that_preparation_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, rows: list[dict[str, Any]], lost: dict[str, int]
) -> None:
    found: list[RehearsedRows] = []
    monkeypatch.setattr(data, "rehearsed", lambda sources: found.append(rehearsed(sources)) or found[-1])
    write(tmp_path / "rows.jsonl", rows)
    script = emitted(tmp_path, with_key(BASES[method], "data", {"preferences": "rows.jsonl"}), monkeypatch)
    (rehearsal,) = found
    first = [row.reasons[0] for row in rehearsal.rows if row.reasons]
    assert Counter("empty" if reason in SILENT else reason for reason in first) == lost
    assert len(rehearsal.lost(DUPLICATE)) == lost["duplicates"], "what teaches nothing repeats nothing"
    monkeypatch.setattr(script, "MAX_DROPPED", 1)
    script.main()
    (report,) = (json.loads(file.read_text()) for file in tmp_path.glob("data/*/report.json"))
    counts = report["train"]
    assert {reason: counts[reason] for reason in lost} == lost
    assert counts["read"] == len(rehearsal.rows) == len(rows)


@pytest.mark.parametrize("brings", [False, True], ids=["drawn", "eval from a file"])
@pytest.mark.parametrize("key", ["group", "stratify", "time"])
def test_rows_without_a_value_to_split_by_are_left_out_where_the_recipe_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, brings: bool
) -> None:
    found: list[RehearsedRows] = []
    monkeypatch.setattr(data, "rehearsed", lambda sources: found.append(rehearsed(sources)) or found[-1])
    dates = ["2026-01-01", "2026-02-01", "2026-03-01"]
    rows = [{"prompt": asked, "completion": f"So {asked}", "of": dates[n % 3]} for n, asked in enumerate(QUESTIONS)]
    write(
        tmp_path / "rows.jsonl",
        [*rows, *({**row, "prompt": f"Also {n}?", "of": [None, "", " "][n % 3]} for n, row in enumerate(rows[:4]))],
    )
    write(tmp_path / "eval.jsonl", [{"prompt": f"Held {n}?", "completion": f"Then {n}."} for n in range(4)])
    given = {"train": "rows.jsonl", "split": {key: "of"}, "test_fraction": 0.2, "incomplete": "skip"}
    given |= {"eval": "eval.jsonl"} if brings else {"eval_fraction": 0.2}
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data", given), monkeypatch)
    monkeypatch.setattr(script, "MAX_DROPPED", 1)
    script.main()

    (report,) = (json.loads(file.read_text()) for file in tmp_path.glob("data/*/report.json"))
    assert report["train"]["lacks"] == {"no `of`": 4} and report["train"]["read"] == 64
    assert not brings or (report["eval"]["incomplete"], report["eval"]["read"]) == (0, 4)
    assert [source.incomplete for source in found[0].sources] == [("no `of`",) * 4]
