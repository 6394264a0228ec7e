"""Fit every candidate, and time those that fit; which of them is taken: preference.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, pairwise
from math import ceil, inf

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.attention import MASK
from recipec.catalog.architecture import Architecture
from recipec.catalog.gpus import Gpu
from recipec.estimate.memory import MemoryEstimate, largest_that_fits, least_bytes, on_device, step_memory
from recipec.estimate.overhead import overhead_of
from recipec.estimate.scores import one_row
from recipec.estimate.storage import host_memory, merging_host
from recipec.estimate.throughput import TimeEstimate, step_time
from recipec.estimate.workload import Workload
from recipec.facts import Facts
from recipec.layout import Layout
from recipec.planner.search.bounds import NEAR, STATED_HOST_SHARE, TIE, Bounds
from recipec.planner.search.context import EIGHT_BIT
from recipec.planner.search.names import adaptation_name, family_of
from recipec.units import GIB

HEADROOM = 0.95  # the memory law was more than 5 % too low in few published runs: benchmarks/results


class Candidate(Struct, frozen=True):
    """A layout with its estimates; `over_bytes` is 0 when it fits."""

    stage: str
    layout: Layout
    memory: MemoryEstimate
    time: TimeEstimate | None
    over_bytes: int
    host_bytes: int  # host memory of a node
    reference_seconds: float = 0.0  # for a step: its part of scoring all rows with the reference before training
    obstacle: str = ""  # why it cannot run although the device memory would do
    crowds_host: bool = False  # it may need more host memory than a node has
    host_assumed: bool = False  # whether that is assumed
    nodes: int = 1  # that it runs on
    tie: float = TIE  # of its time and another one
    by_memory: bool = False  # whether the recipe puts memory first
    of_batch: bool = False  # whether the global batch takes a part of the usual limit
    other_batch: bool = False  # whether it makes another global batch than the recipe states

    @property
    def tie_told(self) -> str:
        """The limit, and why it is another one than usual."""
        if self.of_batch:
            return f"{self.tie:.0%}, because the smaller global batch takes the rest of {TIE:.0%}"
        first = "memory" if self.by_memory else "speed"
        return f"{self.tie:.0%}, because the recipe puts {first} first" if self.tie < TIE else f"{self.tie:.0%}"

    @property
    def fits(self) -> bool:
        return self.over_bytes <= 0 and not self.obstacle

    @property
    def family(self) -> str:
        return family_of(self.stage, self.layout)

    @property
    def adaptation(self) -> str:
        return adaptation_name(self.stage, self.layout)

    @property
    def title(self) -> str:
        """The family, whether its optimizer has 8-bit states, and whether its activations wait on the host."""
        joined = "and" if self.layout.offloads else "with"
        states = f" with {EIGHT_BIT}" * (self.layout.optimizer == EIGHT_BIT)
        return self.family + states + f" {joined} activations in host memory" * self.layout.activation_offload


def usable_bytes(gpu: Gpu, world_size: int) -> int:
    """The allocated bytes per rank that a plan may be predicted to reach."""
    return int(HEADROOM * overhead_of(gpu).allocatable_bytes(gpu.memory_gib, world_size))


def gpu_gib(gpu: Gpu, allocated_bytes: int, world_size: int) -> float:
    """Memory of such a GPU on which a plan may reach `allocated_bytes`, in GiB: `usable_bytes` the other way."""
    overhead = overhead_of(gpu)
    reserved = allocated_bytes / HEADROOM * overhead.reserved_factor(world_size)
    return (reserved + overhead.outside_bytes(world_size)) / GIB


def forget() -> None:
    """Estimate all layouts anew: what is kept serves one compilation, which plans others beside its recipe."""
    _candidate.cache_clear()


def candidates(
    layouts: Iterable[Layout], shape: Architecture, work: Workload, gpu: Gpu, bounds: Bounds
) -> list[Candidate]:
    """Each layout with the smallest micro batch that fits and is about as fast as the fastest.

    Neighbors that differ in nothing but how many GPUs share a copy of the weights are one: the first that fits.
    """
    alike = groupby(layouts, key=lambda layout: replace(layout, engine_tensor_parallel=1))
    return [_on_fewest(splits, shape, work, gpu, bounds) for _, splits in alike]


def _on_fewest(splits: Iterator[Layout], shape: Architecture, work: Workload, gpu: Gpu, bounds: Bounds) -> Candidate:
    """The first that fits; the last where none does, or where it is not while answers are written that it does not."""
    found = _candidate(next(splits), shape, work, gpu, bounds)
    for layout in splits:
        if found.over_bytes <= 0 or found.memory.peak_moment != "generation":
            break
        found = _candidate(layout, shape, work, gpu, bounds)
    return found


@lru_cache(maxsize=10_000)  # fewer nodes and other batches are planned beside a recipe, of the same layouts
def _candidate(layout: Layout, shape: Architecture, work: Workload, gpu: Gpu, bounds: Bounds) -> Candidate:
    room = usable_bytes(gpu, layout.mesh.world_size)
    layout, memory = _with_largest_batch(layout, shape, work, bounds, room)
    over = memory.peak_allocated_bytes - room
    on_cpu = gpu.kind == "cpu"  # whose memory is the device's
    needed, obstacle = (0, "") if on_cpu else _on_host(layout, shape, work, memory, bounds)
    found = Candidate(
        work.objective,
        layout,
        memory,
        time=None,
        over_bytes=over,
        host_bytes=needed,
        obstacle=obstacle,
        crowds_host=bounds.host_bytes is not None and needed > bounds.host_bytes,
        host_assumed=bounds.host_assumed,
        nodes=ceil(layout.mesh.world_size / bounds.link.gpus_per_node),
        tie=bounds.tie,
        by_memory=bounds.by_memory,
        of_batch=bounds.of_batch,
    )
    found = _timed(found, shape, work, gpu, bounds) if found.fits else found
    other = bounds.stated and found.layout.global_batch != bounds.global_batch
    memory = on_device(found.memory, found.layout.mesh.world_size, overhead_of(gpu))
    return replace(found, memory=memory, other_batch=other)


def _timed(candidate: Candidate, shape: Architecture, work: Workload, gpu: Gpu, bounds: Bounds) -> Candidate:
    """With its time, and with the smallest micro batch that is about as fast as the fastest that fits."""
    largest = _with_time(candidate, candidate.layout, shape, gpu, bounds)
    sizes = [size for size in _micro_batches(shape, largest.layout, work, bounds) if size < largest.layout.micro_batch]
    timed = [largest]
    for layout in (_sized(largest.layout, size, bounds) for size in reversed(sizes)):
        timed.append(_with_time(candidate, layout, shape, gpu, bounds))
        if seconds_per_sequence(timed[-1]) > bounds.as_fast * min(map(seconds_per_sequence, timed)):
            break
    if sizes and timed[-1].layout.micro_batch > sizes[0]:  # a single row needs no mask between rows
        alone = _sized(largest.layout, sizes[0], bounds)
        timed.append(_with_time(candidate, alone, shape, gpu, bounds))
    limit = bounds.as_fast * min(map(seconds_per_sequence, timed))
    near = (found for found in reversed(timed) if found is not largest and seconds_per_sequence(found) <= limit)
    return next(filter(None, (_in_less(found, largest, shape, work) for found in near)), largest)


def _in_less(found: Candidate, largest: Candidate, shape: Architecture, work: Workload) -> Candidate | None:
    """A smaller micro batch with its memory, where that is less: what it accumulates may take more than it saves."""
    memory = step_memory(shape, found.layout, work)
    less = memory.peak_allocated_bytes < largest.memory.peak_allocated_bytes
    return replace(found, memory=memory, over_bytes=0) if less else None


def _with_time(candidate: Candidate, layout: Layout, shape: Architecture, gpu: Gpu, bounds: Bounds) -> Candidate:
    """The candidate with another layout, a step's time and its part of what is computed once before training."""
    time = usual_time(shape, layout, bounds, gpu)
    once = 0.0
    if layout.precomputes:  # as long as scoring them in one pass of training takes
        scoring = usual_time(shape, replace(layout, precomputes=False), bounds, gpu)
        once = (scoring.seconds_per_step - time.seconds_per_step) / bounds.passes
    return replace(candidate, layout=layout, time=time, reference_seconds=once)


def usual_time(shape: Architecture, layout: Layout, bounds: Bounds, gpu: Gpu) -> TimeEstimate:
    """A step of rows of the usual length, padded where they meet longer ones; padding counts as no token."""
    usual = bounds.typical.seq_len_tokens
    padded = bounds.padded_tokens(layout.micro_batch)
    time = step_time(shape, layout, replace(bounds.typical, seq_len_tokens=padded), gpu, bounds.link)
    rate, mfu = (usual / padded * each for each in (time.tokens_per_second_per_gpu, time.mfu))
    return replace(time, tokens_per_second_per_gpu=rate, mfu=mfu)


def retimed(found: Iterable[Candidate], facts: Facts, bounds: Bounds) -> list[Candidate]:
    """Candidates that fit, as they would be timed within other bounds."""
    shape = facts.model.architecture
    return [_with_time(candidate, candidate.layout, shape, facts.gpu, bounds) for candidate in found]


def _on_host(
    layout: Layout, shape: Architecture, work: Workload, memory: MemoryEstimate, bounds: Bounds
) -> tuple[int, str]:
    """Host memory that a node needs, and why what it has is not enough; the order of rows alone refuses no layout."""
    must_hold = not layout.on_device or work.method.random_weights  # these are not read from a shared file
    order = bounds.order if must_hold else None
    needed = host_memory(shape, layout, work, bounds.link.gpus_per_node, memory, order).needed_bytes
    obstacle = _host_obstacle(needed, bounds) if must_hold else ""
    if not (bounds.followed and layout.adapts.merges):
        return needed, obstacle
    merge = merging_host(shape, layout).needed_bytes
    known = bounds.host_bytes is not None and not bounds.host_assumed
    to_merge = _host_obstacle(merge, bounds, " to merge the adapter") if known else ""
    return max(needed, merge), obstacle or to_merge


def _host_obstacle(needed_bytes: int, bounds: Bounds, to: str = "") -> str:
    """Why the host memory of a node is not enough; what is not known has to be stated."""
    if bounds.host_bytes is not None and needed_bytes <= bounds.host_bytes:
        return ""
    needed = f"needs {needed_bytes / GIB:,.0f} GiB of host memory per node{to}"
    if bounds.host_bytes is None:
        return f"{needed}; state `hardware.host_memory_gib`"
    has = f"{bounds.host_bytes / GIB:,.0f} GiB"
    if bounds.host_assumed:
        return f"{needed}, and {has} are assumed to be usable; state `hardware.host_memory_gib`"
    return f"{needed}, and {has} of a node's are usable (recipec leaves {1 - STATED_HOST_SHARE:.0%} to the system)"


def _with_largest_batch(
    layout: Layout, shape: Architecture, work: Workload, bounds: Bounds, room_bytes: int
) -> tuple[Layout, MemoryEstimate]:
    """The layout with the largest micro batch that fits, or else with the smallest, and its memory.

    The largest of all accumulates no gradients; if neither it nor the smallest fits, none between them does.
    """
    *smaller, largest = _micro_batches(shape, layout, work, bounds)
    if smaller and least_bytes(shape, layout, work) > room_bytes:
        found = _sized(layout, smaller[0], bounds)
        return found, step_memory(shape, found, work)
    found = _sized(layout, largest, bounds)
    memory = step_memory(shape, found, work)
    if not smaller or memory.peak_allocated_bytes <= room_bytes:
        return found, memory
    found = _sized(layout, smaller[0], bounds)
    memory = step_memory(shape, found, work)
    if memory.peak_allocated_bytes > room_bytes:
        return found, memory
    layouts = [_sized(layout, size, bounds) for size in smaller]
    return largest_that_fits(shape, layouts, work, room_bytes)


_SIZES = 32  # micro batches that are all tried; of larger shares those of each number of steps; our decision


def _micro_batches(shape: Architecture, layout: Layout, work: Workload, bounds: Bounds) -> list[int]:
    """What the recipe fixes; else the divisors of a rank's share of the global batch that the method can learn from.

    Where the share has few divisors, also what makes nearly the same batch, unless the recipe states one that ranks
    can share.

    A mask over packed examples grows with the square of a micro batch, so they come one row at a time (page BAD-013).
    A kernel gets packed rows as one, which must end before queries are scaled otherwise (page BAD-140).
    """
    if bounds.micro_batch is not None:
        return [bounds.micro_batch]
    if one_row(layout, work) and layout.attends.apart == MASK:
        return [1]
    share = _sized(layout, 1, bounds).accumulation
    least, most = bounds.least_micro_batch, share
    if shape.scale_places and one_row(layout, work):
        most = min(share, (shape.scale_places - 1) // work.seq_len_tokens)
    sizes = range(least, most + 1)
    found = {size for size in sizes if share % size == 0}
    kept = bounds.stated and bounds.global_batch % layout.mesh.data_parallel == 0
    if not (kept or work.method.generates) and any(then > 2 * now for now, then in pairwise(sorted(found))):
        tried = sizes[:_SIZES] if share <= _SIZES else {share // steps for steps in sizes}
        found |= {size for size in tried if size >= least and _near(size, layout, bounds)}
    return sorted(found) or [least]


def _near(micro_batch: int, layout: Layout, bounds: Bounds) -> bool:
    """Whether micro batches of this size make about the global batch."""
    made = _sized(layout, micro_batch, bounds).global_batch
    return abs(made - bounds.global_batch) <= NEAR * bounds.global_batch


def with_batch(layout: Layout, micro_batch: int, global_batch: int, largest: float = inf) -> Layout:
    """The layout with the accumulation that comes nearest to the global batch, and not above the largest if it can."""
    together = micro_batch * layout.mesh.data_parallel
    accumulation = round(global_batch / together)
    if accumulation * together > largest:
        accumulation = int(largest // together)
    return replace(layout, micro_batch=micro_batch, accumulation=max(1, accumulation))


def _sized(layout: Layout, micro_batch: int, bounds: Bounds) -> Layout:
    return with_batch(layout, micro_batch, bounds.global_batch, bounds.most_in_batch)


def seconds_per_sequence(candidate: Candidate) -> float:
    """Step time over the global batch, so that layouts with another batch can be compared."""
    assert candidate.time is not None
    return (candidate.time.seconds_per_step + candidate.reference_seconds) / candidate.layout.global_batch
