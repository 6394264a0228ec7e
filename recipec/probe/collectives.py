"""What ranks of this node send each other: NCCL between its GPUs, gloo between two processes of a CPU."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

from recipec.probe.device import waiting
from recipec.probe.timing import figure, repeated
from recipec.units import MIB

SIZES_MIB = {"cuda": (1, 256), "cpu": (1, 32)}  # of the whole tensor: a latency and a rate
CPU_RANKS = 2
TIMEOUT = timedelta(seconds=60)


def measure(device: str, budget_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row of `collective` for each kind and size; none where there is one GPU."""
    ranks = torch.cuda.device_count() if device == "cuda" else CPU_RANKS
    if ranks == 1:
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_rank, (ranks, device, budget_seconds, folder), ranks)
        timed = json.loads(Path(folder, "timed.json").read_text())
    for kind, mib, seconds in timed:
        sent = _sent(kind, ranks) * mib * MIB / 1e9
        rates = figure([sent / each for each in seconds])
        yield {"kind": kind, "ranks": ranks, "mib": mib, "seconds": figure(seconds), "bus_gb_s": rates}


def _sent(kind: str, ranks: int) -> float:
    """How often each rank sends the whole tensor, in a ring."""
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


def _rank(rank: int, ranks: int, device: str, budget_seconds: float, folder: str) -> None:
    """One of the ranks, in a process of its own; the first writes what it timed."""
    if device == "cuda":
        torch.cuda.set_device(rank)
    engine = "nccl" if device == "cuda" else "gloo"
    store = f"file://{folder}/store"
    distributed.init_process_group(engine, init_method=store, rank=rank, world_size=ranks, timeout=TIMEOUT)
    timed = list(_timed(ranks, device, budget_seconds))
    if rank == 0:
        Path(folder, "timed.json").write_text(json.dumps(timed))
    distributed.barrier()
    distributed.destroy_process_group()


def _timed(ranks: int, device: str, budget_seconds: float) -> Iterator[tuple[str, int, list[float]]]:
    """Every rank repeats as often as the first one, whose clock counts."""
    each = budget_seconds / len(_KINDS) / len(SIZES_MIB[device])
    for mib in SIZES_MIB[device]:
        whole = torch.ones(mib * MIB // 4 // ranks * ranks, device=device)
        part = torch.ones(whole.numel() // ranks, device=device)
        for kind, collective in _KINDS.items():
            yield kind, mib, _in_step(lambda: collective(whole, part), each, device)  # noqa: B023 - called at once


def _in_step(work: Callable[[], object], budget_seconds: float, device: str) -> list[float]:
    wait = waiting(device)
    (once, *_) = repeated(work, 0.0, wait)
    agreed = torch.tensor([max(0.0, budget_seconds / once)], device=device)
    distributed.broadcast(agreed, 0)
    rounds = min(50, int(agreed.item()) // 5)
    seconds: list[float] = []
    for _ in range(1 + rounds):
        seconds += repeated(work, 0.0, wait)
    return seconds


_KINDS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "all_reduce": lambda whole, part: distributed.all_reduce(whole, op=distributed.ReduceOp.MAX),
    "all_gather": lambda whole, part: distributed.all_gather_single(whole, part),
    "reduce_scatter": lambda whole, part: distributed.reduce_scatter_single(part, whole, op=distributed.ReduceOp.MAX),
}
