"""Peak memory of one rank: a sum of named terms at each stage of a step, and the largest stage.

Measured against published runs by benchmarks/memory_accuracy.py; the error bands below are its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.device import device_overhead_bytes, reserved_factor
from recipec.estimate.stages import stages
from recipec.estimate.step import Step, step_of
from recipec.estimate.work import Work
from recipec.layout import Layout

_RESULTS = "benchmarks/results/memory_accuracy.md"
MAX_MICRO_BATCH = 4096  # beyond it more sequences per step only grow the search


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Relative error of the allocated peak seen on published runs: true / predicted lies in [low, high]."""

    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory of one rank. `terms` sum to `peak_allocated_bytes` and are those of `peak_stage`."""

    terms: Mapping[str, int]
    stages: Mapping[str, int]
    peak_stage: str
    peak_allocated_bytes: int  # torch.accelerator.max_memory_allocated
    peak_reserved_bytes: int  # max_memory_reserved: with the caching allocator's fragments
    peak_device_bytes: int  # with the CUDA context and NCCL: what nvidia-smi must at least have
    error_band: ErrorBand
    host_bytes: int  # CPU memory per rank for offloaded states and activations, paged states


def step_memory(architecture: Architecture, layout: Layout, work: Work) -> MemoryEstimate:
    """Predict the peak of one optimizer step of `layout` on one rank, in bytes."""
    step = step_of(architecture, layout, work)
    live = stages(step, layout.adaptation == "full")
    totals = {name: round(sum(terms.values())) for name, terms in live.items()}
    peak = max(totals, key=totals.__getitem__)
    terms = {name: round(size) for name, size in live[peak].items() if size >= 0.5}
    allocated = sum(terms.values())
    world = layout.mesh.world_size
    reserved = round(allocated * reserved_factor(world))
    return MemoryEstimate(
        terms=terms,
        stages=totals,
        peak_stage=peak,
        peak_allocated_bytes=allocated,
        peak_reserved_bytes=reserved,
        peak_device_bytes=reserved + device_overhead_bytes(world),
        error_band=error_band(layout),
        host_bytes=round(step.fixed.states.host) + _waiting_on_host(step),
    )


def _waiting_on_host(step: Step) -> int:
    """Pinned copies of the inputs of recomputed layers, in blocks of powers of two (torch CachingHostAllocator.h)."""
    each = step.tokens * step.fixed.layers.checkpoint
    return step.depth.recomputed * (1 << (each - 1).bit_length()) if step.depth.offloads else 0


def error_band(layout: Layout) -> ErrorBand:
    """The middle nine tenths of measured / predicted over published runs of the same kind, where there are any."""
    if layout.mesh.ranks_per_layer > 1:
        return ErrorBand(0.85, 1.2, "no published run was scored: shares of the formula's terms")
    if layout.strategy in ("fsdp", "hsdp"):
        return ErrorBand(0.97, 1.04, f"63 published FSDP runs; {_RESULTS}")
    if layout.strategy in ("single", "ddp"):
        return ErrorBand(0.98, 1.04, f"45 published single-GPU runs; {_RESULTS}")
    return ErrorBand(0.93, 1.15, "DeepSpeed: its sources' sizes, one published run; not scored otherwise")


def largest_micro_batch(architecture: Architecture, layout: Layout, work: Work, usable_bytes: int) -> int:
    """The largest micro batch whose allocated peak is within `usable_bytes`; 0 where none is.

    The peak is piecewise affine in the micro batch, so two evaluations give a guess and neighbours settle it.
    """
    one, two = (_peak(architecture, layout, work, batch) for batch in (1, 2))
    if one > usable_bytes:
        return 0
    guess = 1 + int((usable_bytes - one) / max(two - one, 1))
    return _settle(architecture, layout, work, usable_bytes, min(guess, MAX_MICRO_BATCH))


def _settle(architecture: Architecture, layout: Layout, work: Work, usable_bytes: int, guess: int) -> int:
    """Bisect around the guess: at or below it the first time, above it while it still fits."""
    low, high = 1, guess
    while high <= MAX_MICRO_BATCH and _peak(architecture, layout, work, high) <= usable_bytes:
        low, high = high, 2 * high
    high = min(high, MAX_MICRO_BATCH + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _peak(architecture, layout, work, middle) <= usable_bytes else (low, middle)
    return low


def _peak(architecture: Architecture, layout: Layout, work: Work, micro_batch: int) -> int:
    return step_memory(architecture, replace(layout, micro_batch=micro_batch), work).peak_allocated_bytes
