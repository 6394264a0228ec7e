"""A probe of this CPU, as short as it can be: what it writes is what a recipe may name."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
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
    assert {"machine", "process", "memory_copy", "disk", "product", "attention", "micro_step", "collective"} < set(
        found
    )
    assert {row["kind"] for row in found["collective"]} == {"all_reduce", "all_gather", "reduce_scatter"}
    assert found["machine"]["gpus"] == [] and found["process"]["started_gib"] > 0.2

    recipe = with_key(BASES["cpu"], "hardware.measured", NAMED)
    planned = compiled(tmp_path, recipe)
    assert planned.plan is not None, planned.diagnostics
    assert not {"W0524", "E0412", "E0413"} & set(codes(planned))
    basis = planned.plan.stages[0].needs.basis
    assert basis is not None and basis.assumed == ()
    assert set(os.listdir(tmp_path)) >= {NAMED}
