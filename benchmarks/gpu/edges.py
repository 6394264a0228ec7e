"""The largest micro batch that really runs, beside the one that the planner allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from benchmarks.gpu.cases import Case
from benchmarks.gpu.run import Job, NotPlanned, Rig, plan

_STEPS = 2
_TRIES = 4


def planned_rows(case: Case, gpu: str) -> int:
    """The largest micro batch of `case` that recipec accepts on `gpu`; 0 where it accepts none."""
    low, high = 0, 1
    while accepted(replace(case, rows=high), gpu):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(replace(case, rows=middle), gpu) else (low, middle)
    return low


def accepted(case: Case, gpu: str) -> bool:
    """Whether recipec plans `case` on `gpu`."""
    with TemporaryDirectory() as folder:
        try:
            plan(case, gpu, Path(folder))
        except NotPlanned:
            return False
    return True


def find_edge(rig: Rig, case: Case, until: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """Run the planned batch, then larger ones, until the largest that runs is next to one that does not."""
    ran, failed = 0, 0
    rows = planned = planned_rows(case, rig.gpu)
    for _ in range(_TRIES):
        if time.monotonic() > until or rows in (ran, failed):
            return
        found = rig.finish(*rig.start(Job(replace(case, rows=planned), rows, _STEPS)), until)
        yield rows, found
        if found["status"] == "ran":
            ran, rows = rows, _larger(rows, found, failed)
        elif found["status"] == "out of memory":
            failed, rows = rows, (ran + rows) // 2 if ran else rows * 3 // 4
        else:
            return


def _larger(rows: int, found: dict[str, Any], failed: int) -> int:
    """What fills the device if memory grows with the batch as it did from the loaded model on."""
    each = (found["peak_bytes"] - found["states_bytes"]) / rows
    room = found["capacity_bytes"] - found["outside_bytes"] - found["reserved_bytes"]
    guess = rows + max(int(room / each), 1)
    return min(guess, (rows + failed) // 2) if failed else guess
