"""Fit every candidate, time those that fit, and take the best; keep the best of each family with why it lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recipec.catalog.architecture import Architecture
from recipec.catalog.gpus import Gpu
from recipec.estimate.device import device_overhead_bytes, reserved_factor, usable_bytes
from recipec.estimate.links import Link
from recipec.estimate.memory import MemoryEstimate, step_memory
from recipec.estimate.storage import host_memory
from recipec.estimate.throughput import TimeEstimate, step_time
from recipec.estimate.work import Work
from recipec.layout import Layout, Mesh
from recipec.planner.meshes import STRATEGIES

GIB = 2**30
HEADROOM = 0.95  # the memory law was more than 5 % too low in few published runs: benchmarks/results
# Our decision: no plan needs more unless the recipe says that a node has it. DGX A100 (640 GB) and DGX H100 have 2 TB.
MOST_HOST_BYTES = 2 * 1024 * GIB
TIE = 0.25  # predicted times closer than this count as equal (the estimates err by more), so the simpler layout wins


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a candidate must respect, and what it is measured by."""

    memory_gib: float  # of a device
    host_bytes: int | None  # CPU memory of a node; None: not stated, not checked
    global_batch: int
    micro_batch: int | None  # fixed by the recipe
    link: Link  # between the devices
    typical: Work  # a step with examples of the usual length, for the time; memory must hold the longest ones


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout with its estimates; `over_bytes` is 0 when it fits."""

    stage: str
    layout: Layout
    memory: MemoryEstimate
    time: TimeEstimate | None
    over_bytes: int
    host_bytes: int  # CPU memory of a node
    obstacle: str = ""  # why it cannot run although the device memory would do

    @property
    def fits(self) -> bool:
        return self.over_bytes <= 0 and not self.obstacle

    @property
    def family(self) -> str:
        return family_of(self.stage, self.layout)

    @property
    def title(self) -> str:
        """The family, and whether its activations wait on the host."""
        joined = "and" if self.layout.offload != "none" else "with"
        return self.family + f" {joined} activations in CPU memory" * self.layout.activation_offload


_ALL_WEIGHTS = {"pretrain": "pretraining", "continue-pretrain": "all weights"}


def family_of(stage: str, layout: Layout) -> str:
    """The kind of a layout, for people: "QLoRA, zero2 with CPU offload"."""
    name = {"full": _ALL_WEIGHTS.get(stage, "full fine-tuning"), "lora": "LoRA"}[layout.adaptation]
    name = "QLoRA" if layout.quantization == "nf4" else name
    offload = " with CPU offload" if layout.offload == "cpu" else ""
    return f"{name}, {layout.strategy}{_within_layers(layout.mesh)}{offload}"


def _within_layers(mesh: Mesh) -> str:
    kinds = (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert))
    return "".join(f" x {name} parallel" for name, ranks in kinds if ranks > 1)


def planned_bytes(gpu_memory_gib: float, world_size: int) -> int:
    """The allocated bytes per rank that a plan may be predicted to reach."""
    return int(HEADROOM * usable_bytes(gpu_memory_gib, world_size))


def card_gib(allocated_bytes: int, world_size: int) -> float:
    """Memory of a card on which a plan may be predicted to reach `allocated_bytes`: `planned_bytes` the other way."""
    reserved = allocated_bytes / HEADROOM * reserved_factor(world_size)
    return (reserved + device_overhead_bytes(world_size)) / GIB


def candidates(layouts: Iterable[Layout], shape: Architecture, work: Work, gpu: Gpu, bounds: Bounds) -> list[Candidate]:
    """Each layout with the largest micro batch that fits and divides the global batch."""
    return [_candidate(layout, shape, work, gpu, bounds) for layout in layouts]


def _candidate(layout: Layout, shape: Architecture, work: Work, gpu: Gpu, bounds: Bounds) -> Candidate:
    room = planned_bytes(bounds.memory_gib, layout.mesh.world_size)
    layout, memory = _with_largest_batch(layout, shape, work, bounds, room)
    over = memory.peak_allocated_bytes - room
    host_needed = 0
    if not layout.on_device or work.objective == "pretrain":  # random weights are not read from a shared file
        host_needed = host_memory(shape, layout, work, bounds.link.gpus_per_node).needed_bytes
    obstacle = _host_obstacle(host_needed, bounds.host_bytes)
    time = step_time(shape, layout, bounds.typical, gpu, bounds.link) if over <= 0 and not obstacle else None
    return Candidate(work.objective, layout, memory, time, over, host_needed, obstacle)


def _host_obstacle(needed_bytes: int, host_bytes: int | None) -> str:
    """Why the CPU memory of a node is not enough; unstated, it is taken to be no more than common nodes have."""
    if needed_bytes <= (MOST_HOST_BYTES if host_bytes is None else host_bytes):
        return ""
    needed = f"needs {needed_bytes / GIB:,.0f} GiB of CPU memory per node"
    return f"{needed}, it has {host_bytes / GIB:,.0f}" if host_bytes is not None else f"{needed}: state host_memory_gib"


def _with_largest_batch(
    layout: Layout, shape: Architecture, work: Work, bounds: Bounds, room_bytes: int
) -> tuple[Layout, MemoryEstimate]:
    """The layout with the largest micro batch that fits, or else with the smallest, and its memory.

    The largest of all accumulates no gradients; if neither it nor the smallest fits, none between them does.
    """

    def split(size: int) -> tuple[Layout, MemoryEstimate]:
        batched = with_batch(layout, size, bounds.global_batch)
        return batched, step_memory(shape, batched, work)

    largest, *between = _micro_batches(layout, bounds)
    found = split(largest)
    if not between or found[1].peak_allocated_bytes <= room_bytes:
        return found
    least = split(between.pop())
    if least[1].peak_allocated_bytes > room_bytes:
        return least
    fitting = (found for found in map(split, between) if found[1].peak_allocated_bytes <= room_bytes)
    return next(fitting, least)


def _micro_batches(layout: Layout, bounds: Bounds) -> list[int]:
    """What the recipe fixes; else a rank's whole share of the global batch, then the powers of two that divide it."""
    if bounds.micro_batch is not None:
        return [bounds.micro_batch]
    share = max(1, bounds.global_batch // layout.mesh.data_parallel)
    powers = (2**power for power in range(share.bit_length() - 1, -1, -1))
    return [share, *(size for size in powers if size < share and share % size == 0)]


def with_batch(layout: Layout, micro_batch: int, global_batch: int) -> Layout:
    """The layout with the accumulation that comes nearest to the global batch."""
    accumulation = max(1, round(global_batch / (micro_batch * layout.mesh.data_parallel)))
    return replace(layout, micro_batch=micro_batch, accumulation=accumulation)


def best(found: list[Candidate]) -> Candidate | None:
    """The fastest candidate that fits; among equally fast ones the simplest."""
    feasible = [candidate for candidate in found if candidate.fits]
    if not feasible:
        return None
    fastest = min(seconds_per_sequence(candidate) for candidate in feasible)
    return min(
        (candidate for candidate in feasible if seconds_per_sequence(candidate) <= fastest * (1 + TIE)),
        key=_complexity,
    )


def seconds_per_sequence(candidate: Candidate) -> float:
    """Step time over the global batch, so that layouts with another batch can be compared."""
    assert candidate.time is not None
    return candidate.time.seconds_per_step / candidate.layout.global_batch


def _complexity(candidate: Candidate) -> tuple[bool, bool, bool, int, int, bool, float]:
    """What can be built is simpler than shared layers, which cannot; only states on the host are less simple still."""
    layout = candidate.layout
    measures = layout.offload != "none", layout.mesh.ranks_per_layer > 1, layout.activation_offload
    kinds = layout.mesh.ranks_per_layer, STRATEGIES.index(layout.strategy)
    return (*measures, *kinds, layout.checkpointing, seconds_per_sequence(candidate))
