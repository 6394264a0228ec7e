"""Peak memory of one rank: a sum of named terms at each moment of a step, and the largest moment.

Measured against published runs by benchmarks/memory_accuracy.py; the error bands below are its results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.device import ASSUMED, Overhead
from recipec.estimate.generation import generation_terms
from recipec.estimate.judges import judging_terms
from recipec.estimate.moments import moments
from recipec.estimate.scored import memory_scored
from recipec.estimate.step import Step, fixed_of, step_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout


class ErrorBand(Struct, frozen=True):
    """Relative error of the allocated peak on published runs: measured / predicted lies in [low, high]."""

    low: float
    high: float
    source: str
    scored: bool = True  # runs of the very kind of a plan are among them


class MemoryEstimate(Struct, frozen=True):
    """Memory of one rank. `terms` sum to `peak_allocated_bytes` and are those of `peak_moment`."""

    terms: Mapping[str, int]
    moments: Mapping[str, int]
    peak_moment: str
    peak_allocated_bytes: int  # torch.accelerator.max_memory_allocated
    peak_reserved_bytes: int  # max_memory_reserved: with the caching allocator's fragments
    peak_device_bytes: int  # with the CUDA context and NCCL: what nvidia-smi must at least have
    error_band: ErrorBand
    host_bytes: int  # host memory per rank for offloaded states and activations, paged states


@lru_cache(maxsize=4096)  # ways out of a recipe that does not fit plan the same layouts on other machines
def step_memory(architecture: Architecture, layout: Layout, work: Workload) -> MemoryEstimate:
    """Predict the peak of one optimizer step of `layout` on one rank, in bytes."""
    step = step_of(architecture, layout, work)
    live = moments(step)
    if work.written_tokens:
        if work.judges:
            live["judging"] = {**step.fixed.resident, **judging_terms(layout, work, step.fixed.path)}
        live["generation"] = {**step.fixed.resident, **generation_terms(architecture, layout, work, step)}
    totals = {name: round(sum(terms.values())) for name, terms in live.items()}
    peak = max(totals, key=totals.__getitem__)
    terms = {name: round(size) for name, size in live[peak].items() if size >= 0.5}
    allocated = sum(terms.values())
    world = layout.mesh.world_size
    reserved = round(allocated * ASSUMED.reserved_factor(world))
    return MemoryEstimate(
        terms=terms,
        moments=totals,
        peak_moment=peak,
        peak_allocated_bytes=allocated,
        peak_reserved_bytes=reserved,
        peak_device_bytes=reserved + ASSUMED.outside_bytes(world),
        error_band=error_band(layout, scored=memory_scored(architecture, layout, work)),
        host_bytes=round(step.fixed.states.host) + _waiting_on_host(step),
    )


def least_bytes(architecture: Architecture, layout: Layout, work: Workload) -> float:
    """What a rank holds at all times, whatever its micro batch: no peak is lower."""
    return sum(fixed_of(architecture, layout, work).resident.values())


def on_device(memory: MemoryEstimate, world_size: int, overhead: Overhead) -> MemoryEstimate:
    """The estimate on a machine that takes `overhead` beside the tensors."""
    reserved = round(memory.peak_allocated_bytes * overhead.reserved_factor(world_size))
    found = replace(
        memory, peak_reserved_bytes=reserved, peak_device_bytes=reserved + overhead.outside_bytes(world_size)
    )
    return replace(found, error_band=HEAP_BAND) if overhead.heap_factor else found


def _waiting_on_host(step: Step) -> int:
    """Pinned copies of the inputs of recomputed layers, in blocks of powers of two (torch CachingHostAllocator.h)."""
    each = step.tokens * step.fixed.layers.checkpoint
    return step.depth.recomputed * (1 << (each - 1).bit_length()) if step.depth.offloads else 0


def error_band(layout: Layout, *, scored: bool = True) -> ErrorBand:
    """Where nine tenths of the published runs of a kind lie, measured / predicted, with up to two points to spare.

    The room is our decision: none of those runs computed TRL's loss, and none was on FSDP2.
    """
    if layout.mesh.ranks_per_layer > 1:
        return ErrorBand(0.85, 1.2, "no published run was scored; shares of the formula's terms", scored)
    if layout.fsdp:
        return ErrorBand(0.97, 1.04, "63 published runs on FSDP1, which stand for FSDP2; none with HSDP", scored)
    if layout.spreads.replicates:
        return ErrorBand(0.98, 1.04, "45 published runs on one GPU, none with DDP", scored)
    return ErrorBand(0.93, 1.15, "one published run with DeepSpeed; otherwise sizes from its sources", scored)


# Of the process, not of its tensors: benchmarks/results/probe.md.
HEAP_BAND = ErrorBand(0.75, 1.1, "four trainings on one CPU", scored=False)


def largest_that_fits(
    architecture: Architecture, layouts: Sequence[Layout], work: Workload, room_bytes: int
) -> tuple[Layout, MemoryEstimate]:
    """Of layouts in ascending order of their peaks the last within `room_bytes`, or else the first, and its memory."""
    found = bisect_right(layouts, room_bytes, key=lambda layout: _peak(architecture, layout, work))
    chosen = layouts[max(0, found - 1)]
    return chosen, step_memory(architecture, chosen, work)


def _peak(architecture: Architecture, layout: Layout, work: Workload) -> int:
    return step_memory(architecture, layout, work).peak_allocated_bytes
