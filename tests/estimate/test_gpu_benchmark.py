"""The GPU benchmark as far as a machine without a GPU can show: its cases are planned, its rows are as long as said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiers import quick_where

from benchmarks.gpu.cases import CASES, EDGES, Case
from benchmarks.gpu.edges import accepted, find_edge, planned_rows
from benchmarks.gpu.report import cases_table, edges_table
from benchmarks.gpu.run import build

SMALL = "Qwen/Qwen2.5-0.5B"


def test_every_case_is_planned_on_the_larger_card() -> None:
    assert not [case.id for case in CASES if not accepted(case, "h200")]


def test_no_larger_micro_batch_is_planned_than_the_largest() -> None:
    case = Case(SMALL, "lora", 2048, 1, checkpointing=False)
    rows = planned_rows(case, "h100")
    assert [accepted(Case(SMALL, "lora", 2048, count, checkpointing=False), "h100") for count in (rows, rows + 1)] == [
        True,
        False,
    ]


@pytest.mark.executes
@pytest.mark.parametrize("objective", quick_where({"sft"}, ["sft", "dpo", "pretrain"]))
def test_the_longest_rows_are_as_long_as_the_case_says(tmp_path: Path, objective: str) -> None:
    case = Case(SMALL, "full", 64, 2, objective)
    _place_tokenizer(tmp_path)
    build(case, "h100", tmp_path, tmp_path)
    environment = os.environ | {"DATA_ROOT": str(tmp_path), "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    script = tmp_path / "bundle" / "prepare_data.py"
    subprocess.run([sys.executable, str(script)], env=environment, check=True, capture_output=True)
    report = json.loads((script.parent / "data" / objective / "report.json").read_text())
    kept = script.parent / "data" / objective / "train.jsonl"
    assert report["train"]["too_long"] == 0
    assert max(json.loads(line)["length"] for line in kept.read_text().splitlines()) == case.length


def _place_tokenizer(hub: Path) -> None:
    from benchmarks.gpu.models import word_tokenizer, write_config
    from recipec.verify.stand_in import hub_folder

    folder = hub_folder(hub, SMALL, None)
    folder.rmdir()
    write_config(SMALL, folder)
    word_tokenizer().save_pretrained(folder)


class Device:
    """A rig on a device that holds `rows` rows."""

    gpu = "h100"

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def start(self, job: Any) -> tuple[Any]:
        return (job.rows,)

    def finish(self, rows: int, until: float) -> dict[str, Any]:
        status = "ran" if rows <= self.rows else "out of memory"
        return {
            "status": status,
            "states_bytes": 0,
            "peak_bytes": rows * 100,
            "reserved_bytes": rows * 100,
            "outside_bytes": 10,
            "capacity_bytes": 10 + self.rows * 100 + 50,
        }


@pytest.mark.parametrize("more", [-3, 0, 5])
def test_the_edge_is_found_from_both_sides(more: int) -> None:
    case = EDGES[1]
    rows = planned_rows(case, "h100") + more
    tried = {rows: found["status"] for rows, found in find_edge(Device(rows), case, time.monotonic() + 60)}
    assert max(count for count, status in tried.items() if status == "ran") == rows
    assert "out of memory" in tried.values()


def test_a_table_scores_what_ran_and_names_what_did_not() -> None:
    case = CASES[0]
    run = {"case": case.id, "status": "ran", "peak_bytes": 2**33, "reserved_bytes": 2**33 + 2**30}
    run |= {"step_tokens": [1, 1, 8192, 8192], "step_seconds": [9, 9, 0.25, 0.25]}
    lines = list(cases_table([run, {"case": CASES[1].id, "status": "out of memory"}], "h100"))
    assert f"| {case.id} | 8.00 | 8.38 | +4.7% | 1.125 | 32,768 |" in lines[2]
    assert lines[3] == f"| {CASES[1].id} | out of memory | | | | | | |"
    edge = [
        {"case": EDGES[0].id, "rows": rows, "status": status} for rows, status in ((300, "ran"), (310, "out of memory"))
    ]
    assert list(edges_table(edge, "h100"))[2].endswith("| 300 | 310 |")
