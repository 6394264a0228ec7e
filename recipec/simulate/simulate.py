"""The exact peak of one training step, beside which the closed formula can be held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import lcm

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.simulate.depth import extrapolate, shallow
from recipec.simulate.meter import Peak
from recipec.simulate.notes import notes_of
from recipec.simulate.rig import step_peaks

SHALLOW = (2, 3)  # layers; the ends of a model are all there is where nothing is sharded
SHALLOW_SHARDED = (4, 5)  # FSDP gathers one layer ahead and reduces one behind, so the ends are two layers deep


class Simulated(Struct, frozen=True):
    """Allocated bytes of one rank. `terms` are those of `peak_moment`; `seconds` is how long the simulation took."""

    moments: Mapping[str, int]
    peak_moment: str
    peak_allocated_bytes: int
    terms: Mapping[str, int]
    seconds: float
    notes: tuple[str, ...]


def simulate(architecture: Architecture, layout: Layout, work: Workload, *, full_depth: bool = False) -> Simulated:
    """Run one step of `layout` on fake tensors; the layout must be one that `obstacle` has nothing against.

    Two shallow models stand for the whole one unless `full_depth` asks for it, or the two disagree.
    """
    begun = time.perf_counter()
    peaks, notes = _peaks(architecture, layout, work, full_depth)
    moments: dict[str, Peak] = {}
    for site, peak in peaks.items():
        name = site.partition(":")[0]
        if name not in moments or peak.total > moments[name].total:
            moments[name] = peak
    highest = max(moments, key=lambda name: moments[name].total)
    return Simulated(
        moments={name: peak.total for name, peak in moments.items()},
        peak_moment=highest,
        peak_allocated_bytes=moments[highest].total,
        terms={name: size for name, size in moments[highest].terms.items() if size > 0},
        seconds=time.perf_counter() - begun,
        notes=(*notes, *notes_of(layout, work)),
    )


def _shallow(architecture: Architecture, layout: Layout) -> tuple[int, int]:
    """Two depths to continue from; where layers differ, by window or recomputation, they end like the model."""
    period = lcm(max(1, layout.recompute_interval), max(1, architecture.full_attention_every))
    if period == 1:
        return SHALLOW_SHARDED if layout.fsdp else SHALLOW
    ends = (architecture.num_layers - 1) % period + 1  # layers behind the last whole period
    first = ends + period * max(0, -(-(SHALLOW_SHARDED[0] - ends) // period))
    return first, first + period


def _peaks(
    architecture: Architecture, layout: Layout, work: Workload, full_depth: bool
) -> tuple[dict[str, Peak], list[str]]:
    """Site -> peak at the model's depth, and how it was found."""
    depths = _shallow(architecture, layout)
    mixed = architecture.moe is not None and architecture.moe.dense_layers > 0
    irregular = mixed or bool(architecture.attention_at) or (bool(architecture.pattern) and len(architecture.kinds) > 1)
    irregular = irregular or architecture.borrowing > 0
    if full_depth or irregular or architecture.num_layers <= depths[1]:
        return step_peaks(architecture, layout, work), [f"all {architecture.num_layers} layers were simulated"]
    runs = [shallow(depth, step_peaks(replace(architecture, num_layers=depth), layout, work)) for depth in depths]
    peaks, moved = extrapolate(*runs, architecture.num_layers)
    if moved:
        why = f"all {architecture.num_layers} layers were simulated: shallow runs peak elsewhere at {', '.join(moved)}"
        return step_peaks(architecture, layout, work), [why]
    return peaks, [f"{depths[0]} and {depths[1]} layers were simulated, and continued to {architecture.num_layers}"]
