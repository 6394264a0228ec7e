"""What a machine takes beside a rank's tensors: as it was measured, or as assumed."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from recipec.catalog.measured import Heap, Measured
from recipec.estimate.device import ASSUMED, GIB, Overhead
from recipec.estimate.memory import step_memory
from recipec.estimate.probed import probed

HEAP_FACTORS = (0.8, 4.0)  # that a C library can have: outside, something else was measured; our decision


class _Card(Protocol):
    @property
    def measured(self) -> Measured | None: ...


def overhead_of(card: _Card) -> Overhead:
    """Of a GPU what its driver takes; of a CPU a process before its tensors, and what its heap keeps of freed ones."""
    found = card.measured
    if found is None:
        return ASSUMED
    if found.device == "cpu":
        process = ASSUMED.context_bytes if found.process_gib is None else round(found.process_gib * GIB)
        return Overhead(process, 0, 0, heap_factor(found))
    return ASSUMED if found.context_gib is None else Overhead(round(found.context_gib * GIB))


def heap_factor(measured: Measured) -> float | None:
    """A process's memory for its tensors over their bytes at the peak; None where that was not measured."""
    factor = _heap_factor(measured.heap) if measured.heap else None
    return factor if factor and HEAP_FACTORS[0] <= factor <= HEAP_FACTORS[1] else None


@lru_cache(maxsize=8)
def _heap_factor(heap: Heap) -> float:
    """The weights were there before the process grew."""
    found = step_memory(*probed("cpu", "fp32", heap.sequences, heap.tokens))
    return (heap.grown_gib * GIB + found.terms["weights"]) / found.peak_allocated_bytes
