"""What decided the layout of a stage, in numbers of the layouts that it was compared with."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import STRATEGIES
from recipec.estimate.memory import step_memory
from recipec.facts import Facts
from recipec.layout import Layout
from recipec.planner.advice.whole_runs import WORTH_NAMING
from recipec.planner.search.bounds import TIE, Bounds
from recipec.planner.search.candidates import (
    Candidate,
    candidates,
    seconds_per_sequence,
    usable_bytes,
    usual_time,
    with_batch,
)
from recipec.planner.search.known_bad import judged
from recipec.planner.search.layouts import layouts
from recipec.planner.search.preference import best, fastest_of, nearest_of, rank_of
from recipec.planner.search.workload import work_of
from recipec.rules.core import Ledger
from recipec.units import gib, times, unlike_gib


class Compared(Struct, frozen=True):
    """A clause for each part of the layout; "" where it was compared with nothing."""

    strategy: str
    offload: str
    micro_batch: str
    checkpointing: str
    world_size: str


def compared(facts: Facts, ledger: Ledger, chosen: Candidate, tried: Sequence[Candidate], bounds: Bounds) -> Compared:
    """Set the chosen layout beside those of its adaptation that differ in one part."""
    alike = [other for other in tried if other.layout.adapts is chosen.layout.adapts and other.layout.can_be_built]
    return Compared(
        strategy=_strategies(chosen, alike, facts),
        offload=_offload(chosen, alike, facts),
        micro_batch=_next_micro_batch(facts, ledger, chosen, bounds),
        checkpointing=_other_activations(facts, ledger, chosen, alike, bounds),
        world_size=_more_ranks(chosen, alike),
    )


def _strategies(chosen: Candidate, alike: Sequence[Candidate], facts: Facts) -> str:
    """The nearest simpler strategy, the nearest of the others and the fastest: "fsdp takes 1.4x the time"."""
    own = _place(chosen)
    groups: dict[int, list[Candidate]] = {}
    for other in alike:
        if _place(other) != own and other.layout.offload == chosen.layout.offload:
            groups.setdefault(_place(other), []).append(other)
    places = sorted(groups)
    simpler, further = [place for place in places if place < own][-1:], [place for place in places if place > own][:1]
    fastest = fastest_of(list(alike))
    ahead = [_place(fastest)] if fastest is not None and _place(fastest) > own else []
    told = dict.fromkeys(place for place in (*simpler, *further, *ahead) if place in groups)
    nearest = {list(STRATEGIES)[place]: nearest_of(groups[place]) for place in told}
    per_node = facts.machines.gpus_per_node
    clauses = (
        f"{name}{' across nodes' * (other.layout.mesh.world_size > per_node)} {_verdict(other, chosen, facts)}"
        f"{_behind(other, chosen, fastest)}"
        for name, other in nearest.items()
    )
    return "; ".join(clauses)


def _behind(other: Candidate, chosen: Candidate, fastest: Candidate | None) -> str:
    """Why a simpler strategy is not taken that is little slower than the chosen one: the fastest is faster still."""
    if fastest is None or not other.fits or _place(other) > _place(chosen) or _ratio(other, chosen) > 1 + chosen.tie:
        return ""
    behind = _ratio(other, fastest) - 1
    equal = f"up to {chosen.tie:.0%} counts as equal"
    return f" and {behind:.1%} more than {fastest.layout.strategy}, the fastest ({equal})" * (behind > chosen.tie)


def _place(candidate: Candidate) -> int:
    """The place of its strategy by simplicity."""
    return list(STRATEGIES).index(candidate.layout.strategy)


def _offload(chosen: Candidate, alike: Sequence[Candidate], facts: Facts) -> str:
    """The best with the other answer to whether states leave the GPUs."""
    others = [other for other in alike if other.layout.offloads != chosen.layout.offloads]
    if not others:
        return ""
    nearest = nearest_of(others)
    how = "with offload" if nearest.layout.offloads else "without offload"
    return f"{how} {nearest.layout.strategy} {_verdict(nearest, chosen, facts)}"


def _verdict(other: Candidate, chosen: Candidate, facts: Facts) -> str:
    """What a layout takes: time where it fits, else memory."""
    if not other.fits:
        over = other.over_bytes > 0
        return _needs(other.layout, other.memory.peak_allocated_bytes, facts) if over else other.obstacle
    ratio = _ratio(other, chosen)
    if chosen.by_memory and ratio <= 1 + chosen.tie and _peak(other) > _peak(chosen):
        return f"takes {times(ratio)}, which counts as equal (within {chosen.tie_told}), and {gib(_peak(other))}"
    if 1 / (1 + chosen.tie) <= ratio <= 1 + chosen.tie and rank_of(other) > rank_of(chosen):
        equal = f"counts as equal (within {chosen.tie_told})"
        return f"takes {times(ratio)}, which {equal}, and {chosen.layout.strategy} is simpler"
    if chosen.tie < ratio - 1 <= TIE and _place(other) < _place(chosen):
        return f"takes {times(ratio)}, and no more than {chosen.tie_told}, would count as equal"
    return f"takes {times(ratio)}"


def _peak(candidate: Candidate) -> int:
    return candidate.memory.peak_allocated_bytes


def _needs(layout: Layout, allocated_bytes: int, facts: Facts) -> str:
    needed, usable = unlike_gib(allocated_bytes, usable_bytes(facts.gpu, layout.mesh.world_size))
    return f"needs {needed}, and {usable} are usable"


def _next_micro_batch(facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds) -> str:
    """What the next larger divisor of a rank's share would take."""
    layout = chosen.layout
    share = layout.micro_batch * layout.accumulation
    size = next((size for size in range(layout.micro_batch + 1, share + 1) if share % size == 0), None)
    if size is None:
        return ""
    larger = _instead(facts, ledger, chosen, bounds, with_batch(layout, size, layout.global_batch))
    return f"{size} {larger}{_with_room(facts, ledger, chosen, replace(bounds, micro_batch=size))}"


def _with_room(facts: Facts, ledger: Ledger, chosen: Candidate, larger: Bounds) -> str:
    """What the layout takes with a larger micro batch and activations in host memory, where that is faster."""
    now, shape, work = chosen.layout, facts.model.architecture, work_of(ledger, facts)
    if not now.checkpointing or now.activation_offload:
        return ""
    placed = now.strategy, now.mesh, now.offload
    hosted = [each for each in layouts(ledger, on_host=True) if (each.strategy, each.mesh, each.offload) == placed]
    allowed = [layout for layout, refusal in judged(hosted, ledger.decisions, shape, work) if refusal is None]
    found = best(candidates(allowed, shape, work, facts.gpu, larger))
    if found is None or _ratio(found, chosen) > WORTH_NAMING:
        return ""
    return f"; with activations in host memory it fits in {gib(_peak(found))} and takes {times(_ratio(found, chosen))}"


def _other_activations(
    facts: Facts, ledger: Ledger, chosen: Candidate, alike: Sequence[Candidate], bounds: Bounds
) -> str:
    """The best layout with activations kept where layers are recomputed; else the same layout with recomputation."""
    layout = chosen.layout
    if not layout.checkpointing:
        return f"with it a step {_instead(facts, ledger, chosen, bounds, replace(layout, checkpointing=True))}"
    kept = [other for other in alike if not other.layout.checkpointing]
    if not kept:
        same = replace(layout, checkpointing=False, recompute_every=1, activation_offload=False)
        kept = candidates([same], facts.model.architecture, work_of(ledger, facts), facts.gpu, bounds)
    found = nearest_of(kept)
    how, verdict = (
        f"{found.layout.strategy} with a micro batch of {found.layout.micro_batch}",
        _verdict(found, chosen, facts),
    )
    return (
        f"the best layout without it, {how}, {verdict}" if found.fits else f"no layout fits without it: {how} {verdict}"
    )


def _instead(facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds, layout: Layout) -> str:
    """What another layout would take: memory where it does not fit, else time."""
    shape = facts.model.architecture
    allocated_bytes = step_memory(shape, layout, work_of(ledger, facts)).peak_allocated_bytes
    if allocated_bytes > usable_bytes(facts.gpu, layout.mesh.world_size):
        return _needs(layout, allocated_bytes, facts)
    time = usual_time(shape, layout, bounds, facts.gpu)
    return f"takes {times(_ratio(replace(chosen, layout=layout, time=time), chosen))}"


def _more_ranks(chosen: Candidate, alike: Sequence[Candidate]) -> str:
    """The fastest layout on more ranks."""
    found = best([other for other in alike if other.layout.mesh.world_size > chosen.layout.mesh.world_size])
    if found is None:
        return ""
    return f"{found.layout.strategy} on {found.layout.mesh.world_size} takes {times(_ratio(found, chosen))}"


def _ratio(one: Candidate, other: Candidate) -> float:
    return seconds_per_sequence(one) / seconds_per_sequence(other)
