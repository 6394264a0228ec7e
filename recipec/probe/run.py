"""All measurements in order, each with its part of the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from recipec.probe import attention, collectives, disk, heap, host_link, machine, memory, products, start, steps
from recipec.probe.device import name_of_device

# Shares of the time. Starting processes and writing files take what they take: about half a minute.
SHARES = {
    "product": 0.1,
    "attention": 0.06,
    "memory_copy": 0.03,
    "host_link": 0.03,
    "micro_step": 0.2,
    "collective": 0.06,
}


def measure(folder: Path, seconds: float, cpu: bool) -> dict[str, Any]:
    """The tables of the file, in its order; those that the machine has nothing for are left out."""
    device = name_of_device(cpu)
    part = {name: share * seconds for name, share in SHARES.items()}
    tables: dict[str, Callable[[], Any]] = {
        "machine": lambda: machine.identity(device),
        "process": start.measure,
        "heap": lambda: heap.measure(device),
        "gpu_memory": lambda: memory.room(device),
        "memory_copy": lambda: memory.copies(device, part["memory_copy"]),
        "host_link": lambda: host_link.measure(device, part["host_link"]),
        "disk": lambda: disk.measure(folder),
        "product": lambda: list(products.measure(device, part["product"])),
        "attention": lambda: list(attention.measure(device, part["attention"])),
        "micro_step": lambda: list(steps.measure(device, part["micro_step"])),
        "collective": lambda: list(collectives.measure(device, part["collective"])),
    }
    return {name: found for name, found in _each(tables.items()) if found}


def _each(tables: Iterable[tuple[str, Callable[[], Any]]]) -> Iterator[tuple[str, Any]]:
    """Run one after the other, and say on stderr which."""
    for name, work in tables:
        print(name.replace("_", " "), file=sys.stderr, flush=True)
        yield name, work()
