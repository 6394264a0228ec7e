"""The memory of the device: how fast it is copied, and how much of it a process with a context finds free."""

from __future__ import annotations

from typing import Any

import torch

from recipec.probe.device import waiting
from recipec.probe.timing import rate, repeated
from recipec.units import GIB, MIB

MOST_TAKEN_GIB = 2.0  # by a context and a first kernel; usual are 0.3 to 0.8
COPIED_MIB = {"cuda": 1024, "cpu": 256}  # far more than the caches hold


def copies(device: str, budget_seconds: float) -> dict[str, Any]:
    """The table `memory_copy`: bytes read and bytes written in a second."""
    source = torch.ones(COPIED_MIB[device] * MIB // 4, device=device)
    target = torch.empty_like(source)
    seconds = repeated(lambda: target.copy_(source), budget_seconds, waiting(device))
    return {"gb_s": rate(2 * COPIED_MIB[device] * MIB / 1e9, seconds)}


def room(device: str) -> dict[str, Any]:
    """The table `gpu_memory`: of the smallest GPU, once a kernel has run; empty without a GPU."""
    if device == "cpu":
        return {}
    smallest = min(range(torch.cuda.device_count()), key=_total)
    torch.ones(1, device=f"cuda:{smallest}").sum().item()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(smallest)
    free_gib, total_gib = free / GIB, total / GIB
    if total_gib - free_gib > MOST_TAKEN_GIB:
        raise SystemExit(f"of the GPU's memory {total_gib - free_gib:.1f} GiB are taken already: end what uses it")
    return {"total_gib": total_gib, "free_gib": free_gib}


def _total(index: int) -> int:
    """Bytes of a GPU, read without a context on it."""
    return torch.cuda.get_device_properties(index).total_memory
