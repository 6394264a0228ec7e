"""Writing and reading a file in the working folder, past the file cache."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from recipec.probe.left_out import left_out
from recipec.probe.timing import rate
from recipec.units import MIB

WRITTEN_MIB, BLOCK_MIB = 256, 8
REPEATS = 3
LEAST_FREE = 4  # times what is written: a full disk is not measured


def measure(folder: Path) -> dict[str, Any]:
    """The table `disk`; empty where there is too little room."""
    free_mib = shutil.disk_usage(folder).free // MIB
    if free_mib < LEAST_FREE * WRITTEN_MIB:
        left_out("disk", f"{free_mib} MiB are free, {LEAST_FREE * WRITTEN_MIB} are needed")
        return {}
    written, read = zip(*(_once(folder) for _ in range(REPEATS)), strict=True)
    amount = WRITTEN_MIB * MIB / 1e9
    return {"write_gb_s": rate(amount, written), "read_gb_s": rate(amount, read)}


def _once(folder: Path) -> tuple[float, float]:
    """Seconds until a new file is on the disk, and until it is read back."""
    block = os.urandom(BLOCK_MIB * MIB)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        started = time.perf_counter()
        for _ in range(WRITTEN_MIB // BLOCK_MIB):
            file.write(block)
        os.fsync(file.fileno())
        written = time.perf_counter() - started
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        started = time.perf_counter()
        while file.read(BLOCK_MIB * MIB):
            pass
        return written, time.perf_counter() - started
