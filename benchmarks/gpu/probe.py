"""What this GPU does without a trainer: products, copies, transfers, and the memory of an empty context."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

_SIZE = 8192
_BYTES = 1 << 30


def probe() -> dict[str, float | str]:
    """Rates in TFLOP/s and GB/s, memory in bytes; takes two seconds."""
    torch.cuda.init()
    one = torch.zeros(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    context = total - free - torch.cuda.memory_reserved()
    left, right = (torch.randn(_SIZE, _SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    block = torch.empty(_BYTES, dtype=torch.uint8, device="cuda")
    host = torch.empty(_BYTES, dtype=torch.uint8, pin_memory=True)
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "capacity_bytes": total,
        "context_bytes": context,
        "matmul_tflops": 2 * _SIZE**3 / _seconds(lambda: left @ right, 20) / 1e12,
        "copy_gb_s": 2 * _BYTES / _seconds(block.clone, 10) / 1e9,
        "to_device_gb_s": _BYTES / _seconds(lambda: block.copy_(host, non_blocking=True), 5) / 1e9,
        "to_host_gb_s": _BYTES / _seconds(lambda: host.copy_(block, non_blocking=True), 5) / 1e9,
        "launch_seconds": _seconds(lambda: one.add_(1), 2000),
    }


def _seconds(run: Callable[[], object], times: int) -> float:
    """The mean of `times` runs, after three that do not count."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times
