"""Host memory that a node does not have, or is not assumed to have, where training with it would be faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from msgspec.structs import replace

from recipec.planner.advice.change import Proposal, planned, setting
from recipec.planner.advice.stated import stating
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds
from recipec.planner.search.bounds import TIE, bounds_of, host_gib
from recipec.planner.search.candidates import Candidate, seconds_per_sequence, usual_time
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe

_PLANNED = 2  # of the sizes that look faster


def with_host_memory(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The host memory with which a layout that needs it would be taken, where training is then clearly faster."""
    assert found.chosen is not None
    waiting = [other for other in found.tried if _lacks_host(other)]
    promising = {wanted_host_gib(other) for other in waiting if _faster(other, context, found, loaded)}
    for wanted in sorted(promising)[:_PLANNED]:
        stated = stating(loaded, host_memory_gib=wanted)
        then = fit(context, stated)
        if then.chosen is None or not then.chosen.layout.can_be_built:
            continue
        ratio = pass_seconds(then) / pass_seconds(found)
        if ratio <= 1 / (1 + TIE):
            effect = f"{then.chosen.title} then fits, and training takes {ratio:.2f}x the time"
            change, but = setting(hardware__host_memory_gib=wanted), (runs.of_all(context, then, stated).beside,)
            only = " if a node has it" if found.chosen.host_assumed else " with nodes that have it"
            yield planned(change, effect, found.chosen, then.chosen, only, but)
            return


def _faster(other: Candidate, context: Context, found: Fit, loaded: LoadedRecipe) -> bool:
    """Whether its layout takes clearly less time than the plan's."""
    assert found.chosen is not None and found.ledger is not None
    facts, bounds = context.facts, bounds_of(context, found.ledger, loaded)
    seconds = usual_time(facts.model.architecture, other.layout, bounds, facts.gpu).seconds_per_step
    return seconds / other.layout.global_batch <= seconds_per_sequence(found.chosen) / (1 + TIE)


def waits_for_host(other: Candidate) -> bool:
    """Whether a layout lacks nothing but host memory, where what a node has is assumed."""
    return _lacks_host(other) and other.host_assumed


def _lacks_host(other: Candidate) -> bool:
    """The same also where what a node has is stated."""
    lacks = other.crowds_host if other.fits else bool(other.obstacle) and other.over_bytes <= 0
    return lacks and other.layout.can_be_built


def wanted_host_gib(other: Candidate) -> int:
    """The host memory of a node that a recipe must state for a layout."""
    return ceil(host_gib(other.host_bytes))


def with_room(tried: Sequence[Candidate]) -> list[Candidate]:
    """Layouts as they are where a node has the host memory that some of them lack."""
    return [replace(other, crowds_host=False) if waits_for_host(other) else other for other in tried]


def least_host(tried: Sequence[Candidate]) -> int | None:
    """The host memory of a node with which a layout fits that has too little of it; None where that is not enough."""
    waiting = [other for other in tried if waits_for_host(other) and not other.fits]
    found = min(waiting, key=lambda other: (-other.layout.mesh.world_size, other.host_bytes), default=None)
    return wanted_host_gib(found) if found is not None else None
