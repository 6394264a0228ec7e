"""The memory of the device: how fast it is copied, and how much of it a process with a context finds free."""

from __future__ import annotations

from typing import Any

import torch

from recipec.probe.device import waiting
from recipec.probe.timing import rate, repeated

MIB = 1 << 20
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
    torch.ones(1, device=device).sum().item()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    every = [torch.cuda.mem_get_info(index)[1] for index in range(torch.cuda.device_count())]
    return {"total_gib": min(every) / (1 << 30), "free_gib": free / (1 << 30)}
