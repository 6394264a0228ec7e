"""What micro steps add to a process of a CPU: their tensors, and what the C library keeps of blocks that were freed.

How much that is depends on the library and on the sizes of the blocks: half of the tensors' bytes and more with glibc
2.36. On a GPU torch's own allocator keeps them, whose share is known.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing

from recipec.catalog.measured import PROBED
from recipec.probe.steps import model_of, timed
from recipec.units import GIB


def measure(device: str) -> dict[str, Any]:
    """The table `heap`: of the largest batch, in a process of its own; empty with a GPU."""
    if device != "cpu":
        return {}
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_grow, args=(sender,))
    process.start()
    process.join()
    if process.exitcode:
        ended = f"the process that trains to show how its memory grows ended with exit code {process.exitcode}"
        raise SystemExit(f"{ended}: free some memory, and run `recipec probe` again")
    sequences, tokens = PROBED["cpu"].batches[-1]
    return {"sequences": sequences, "tokens": tokens, "grown_gib": receiver.recv()}


def _grow(sender: Any) -> None:
    """Send how far the peak of this process lies above what it held before the first step, in GiB."""
    model = model_of("cpu")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batch = torch.randint(0, PROBED["cpu"].vocabulary, PROBED["cpu"].batches[-1])
    before = _gib("VmRSS")
    timed(model, optimizer, batch, "fp32", 0.0)  # the process has its size after three of these steps
    sender.send(_gib("VmHWM") - before)


def _gib(name: str) -> float:
    """A line of /proc/self/status."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, name
    return int(found[1]) * 1024 / GIB
