"""Rows whose questions reach max_length: cutting longer rows leaves nothing of their answers (W0535)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.dataset import DataShape
from recipec.diagnostics.model import Diagnostic
from recipec.facts.row_tokens import RowHead, tokens_before_answer

TRUNCATE = 'to train on the beginning of such rows: `overflow = "truncate"` under [data]'
LONG = "word " * 5_000


def rows_of(section: str, asks: str, answers: str) -> list[dict[str, Any]]:
    """Every fourth row is long, in its question or in its answer."""
    rows = []
    for n in range(40):
        asked, said = (f"{LONG if n % 4 == 0 and long else 'w'} {n}" for long in (asks == "long", answers == "long"))
        turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
        rows.append(
            {"messages": turns} if section == "train" else {"prompt": asked, "chosen": said, "rejected": f"no {n}"}
        )
    return rows


def found(folder: Path, section: str, overflow: str, max_length: int = 256, **long: str) -> list[Diagnostic]:
    model = long.pop("model", "")
    rows = rows_of(section, **({"asks": "short", "answers": "short"} | long))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {section: "rows.jsonl", "overflow": overflow, "max_length": max_length, "template": "plain"}
    base = with_key(BASES["lora-ddp" if section == "train" else "dpo-full"], "data", data)
    base = with_key(base, "model.name", model or base["model"]["name"])
    findings = compiled(folder, base, only_plan=True).diagnostics
    return [finding for finding in findings if finding.code == "W0535"]


@pytest.mark.parametrize("section", ["train", "preferences"])
def test_questions_that_fill_max_length_are_told_where_rows_are_cut(tmp_path: Path, section: str) -> None:
    """prepare_data.py stops there: the rows have no answer within it."""
    (finding,) = found(tmp_path, section, "truncate", asks="long")
    assert "about 25% of the sampled rows" in finding.labels[0].message
    assert "have no answer within 256 tokens" in finding.labels[0].message
    assert not found(tmp_path, section, "truncate", answers="long")
    assert not found(tmp_path, section, "truncate", max_length=8192, asks="long")


@pytest.mark.parametrize(("long", "advised"), [("answers", True), ("asks", False)])
def test_cutting_is_advised_where_it_leaves_an_answer(tmp_path: Path, long: str, advised: bool) -> None:
    (finding,) = found(tmp_path, "train", "drop", model="allenai/OLMo-2-1124-7B-Instruct", **{long: "long"})
    assert (TRUNCATE in finding.help) is advised


def test_the_first_learned_token_of_a_row_of_tokens_is_that_of_its_labels() -> None:
    shape = DataShape.described("token-ids", {}, "")
    ids = list(range(10))
    for labels, before in (([-100] * 6 + ids[6:], 6), (ids, 1), ([-100] * 10, 10)):
        assert tokens_before_answer({"input_ids": ids, "labels": labels}, shape, RowHead()) == before
