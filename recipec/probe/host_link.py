"""Copies between pinned host memory and a GPU, one direction at a time."""

from __future__ import annotations

from typing import Any

import torch

from recipec.probe.device import waiting
from recipec.probe.timing import rate, repeated
from recipec.units import MIB

COPIED_MIB = 256


def measure(device: str, budget_seconds: float) -> dict[str, Any]:
    """The table `host_link`: to the device and back; empty without a GPU."""
    if device == "cpu":
        return {}
    host = torch.empty(COPIED_MIB * MIB, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(host, device=device)
    each, amount = budget_seconds / 2, COPIED_MIB * MIB / 1e9
    down = repeated(lambda: there.copy_(host, non_blocking=True), each, waiting(device))
    back = repeated(lambda: host.copy_(there, non_blocking=True), each, waiting(device))
    return {"to_device_gb_s": rate(amount, down), "to_host_gb_s": rate(amount, back)}
