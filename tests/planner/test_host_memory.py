"""Host memory with which a training would be clearly faster is proposed, and comes true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner import StagePlan


def distilling(base: str, model: str, gpus: int, **train: object) -> Tables:
    """A model on L40S whose layouts need more host memory than is assumed of their nodes."""
    student, teacher = (f"Qwen/Qwen2.5-{size}-Instruct" for size in model.split())
    tables = with_key(with_key(BASES[base], "model.name", student), "alignment.teacher", teacher)
    tables = with_key(tables, "hardware", {"gpu": "l40s", "gpus_per_node": gpus})
    return with_key(tables, "train", train) if train else tables


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[-1]


def test_more_host_memory_is_proposed_where_training_is_then_faster(tmp_path: Path) -> None:
    tables = distilling("distill", "14B 32B", 4, adaptation="full")
    now = planned(tmp_path, tables)
    (line,) = [each for each in now.options if "host_memory_gib" in each]
    then = planned(tmp_path, applied(tables, line))
    (ratio,) = re.findall(r"if a node has it: .+ then fits, and training takes (\d\.\d+)x the time", line)
    assert then.seconds / now.seconds == pytest.approx(float(ratio), abs=0.02)
    assert not [each for each in then.options if "host_memory_gib" in each], "what is stated is believed"


def test_no_host_memory_is_proposed_where_it_is_no_faster(tmp_path: Path) -> None:
    """zero3 with CPU offload needs 263 GiB of 230, and is slower than zero3 without."""
    tables = with_key(distilling("distill", "3B 32B", 8, adaptation="full"), "hardware.gpu", "rtx-4090")
    assert not [each for each in planned(tmp_path, tables).options if "host_memory_gib" in each]
