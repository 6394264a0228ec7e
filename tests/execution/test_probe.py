"""A probe of this CPU, as short as it can be: what it writes is what a recipe may name."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from compiling import BASES, codes, compiled, with_key

pytestmark = pytest.mark.executes
NAMED = "this-cpu.toml"


def test_a_probe_writes_what_a_plan_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recipec", "probe", "--cpu", "--minutes", "0", "-o", NAMED]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = tomllib.loads((tmp_path / NAMED).read_text())
    assert {
        "machine",
        "process",
        "heap",
        "memory_copy",
        "disk",
        "product",
        "attention",
        "micro_step",
        "collective",
    } < set(found)
    assert {row["kind"] for row in found["collective"]} == {"all_reduce", "all_gather", "reduce_scatter"}
    assert found["machine"]["gpus"] == [] and found["process"]["started_gib"] > 0.2
    gradients_and_states = 12 * found["micro_step"][0]["parameters"] / 2**30
    assert gradients_and_states < found["heap"]["grown_gib"] < 20 * gradients_and_states

    recipe = with_key(BASES["cpu"], "hardware.measured", NAMED)
    planned = compiled(tmp_path, recipe)
    assert planned.plan is not None, planned.diagnostics
    assert not {"W0524", "E0412", "E0413"} & set(codes(planned))
    basis = planned.plan.stages[0].needs.basis
    noisy = {"launches", "the rest of a step"}  # of so short a probe beside other tests
    assert basis is not None and set(basis.assumed) <= noisy
    assert set(os.listdir(tmp_path)) >= {NAMED}


def test_batches_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from recipec.probe import steps

    def out_of_memory(model: object, optimizer: object, batch: torch.Tensor, *_: object) -> tuple[list, list]:
        if batch.numel() > 16:
            raise torch.OutOfMemoryError
        return [0.2, 0.2], [0.1, 0.1]

    monkeypatch.setattr(steps, "timed", out_of_memory)
    assert [row["tokens"] for row in steps.measure("cpu", 0.0)] == [16]
    assert capsys.readouterr().err == "  left out: micro steps of 16 x 64 tokens and more: out of memory\n"


def test_the_memory_of_one_gpu_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of different sizes: total and free are the smaller one's."""
    from recipec.probe import memory

    gib, ones = 1 << 30, torch.ones
    sizes, touched = {0: 80 * gib, 1: 24 * gib}, []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda at: SimpleNamespace(total_memory=sizes[at]))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda at=0: (sizes[at] - gib // 2, sizes[at]))
    monkeypatch.setattr(torch, "ones", lambda count, device: touched.append(device) or ones(count))
    assert memory.room("cuda") == {"total_gib": 24.0, "free_gib": 23.5}
    assert touched == ["cuda:1"]
