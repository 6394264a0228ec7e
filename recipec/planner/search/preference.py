"""Which of the candidates that fit is taken: the fastest, or the simplest of those that are as fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recipec.axes import STRATEGIES
from recipec.layout import Layout
from recipec.planner.search.bounds import AS_FAST
from recipec.planner.search.candidates import Candidate, seconds_per_sequence

# The GPUs of a node are paid for whether they train or not: the simpler layout may leave them idle only where it is as
# fast. More nodes stay within the other limit, because what lies between them is known less well. Our decision.
IDLE_TIE = 0.05
PARTLY, MOSTLY = 0.25, 0.5  # of a step, that is spent waiting; our decision
# How much faster states in host memory must be predicted than the same without: runs with them were up to 4.8 times
# slower (Falcon-7B on 8 A100, DeepSpeed#3901), which the law for copies alone does not show. Where they take so little
# of a step that 4.8 times as much would stay within the usual limit, that limit is enough: those of a few adapters.
OFFLOAD_TIE, OFFLOAD_AT_WORST = 1.0, 4.8


def by_preference(tried: Iterable[Candidate]) -> list[str]:
    """The adaptations that were tried, in the order in which the rules would have them."""
    return list(dict.fromkeys(candidate.adaptation for candidate in tried))


def best(found: list[Candidate]) -> Candidate | None:
    """The fastest candidate that fits, also into the host memory of a node if one does; among equals the simplest, or
    the one that takes least memory of the GPUs, and none of the host's for it."""
    feasible = _in_question(found)
    if not feasible:
        return None
    fastest = min(map(seconds_per_sequence, feasible))
    equal = [candidate for candidate in feasible if seconds_per_sequence(candidate) <= fastest * (1 + candidate.tie)]
    if equal[0].by_memory:
        return min(equal, key=_least_memory)
    simplest = min(equal, key=_complexity)
    busier = [candidate for candidate in equal if _fills_node(candidate, simplest)]
    return min(busier, key=_complexity, default=simplest)


def nearest_of(group: Sequence[Candidate]) -> Candidate:
    """The best that fits, with activations on the device if possible; else what comes nearest."""
    plain = [candidate for candidate in group if not candidate.layout.activation_offload] or list(group)
    return best(plain) or best(list(group)) or min(plain, key=lambda other: (bool(other.obstacle), other.over_bytes))


def fastest_of(found: list[Candidate]) -> Candidate | None:
    """The one that the times of the others are compared with; None where nothing fits."""
    return min(_in_question(found), key=seconds_per_sequence, default=None)


def _in_question(found: list[Candidate]) -> list[Candidate]:
    """Those that fit, also into the host memory of a node if any does, and that offload only where that pays."""
    fitting = [candidate for candidate in found if candidate.fits]
    return _worth_offloading([candidate for candidate in fitting if not candidate.crowds_host] or fitting)


def _fills_node(candidate: Candidate, simplest: Candidate) -> bool:
    """Whether it is faster with GPUs of the same nodes that would be idle, and takes no other measures."""
    more = candidate.layout.mesh.world_size > simplest.layout.mesh.world_size and candidate.nodes == simplest.nodes
    faster = seconds_per_sequence(candidate) * (1 + IDLE_TIE) < seconds_per_sequence(simplest)
    return more and faster and _measures(candidate.layout) == _measures(simplest.layout)


def _worth_offloading(found: list[Candidate]) -> list[Candidate]:
    """Without those whose states leave the device for too little speed."""
    on_device = [candidate for candidate in found if not candidate.layout.offloads]
    if not on_device:
        return found
    fastest = min(on_device, key=seconds_per_sequence)
    return [other for other in found if not other.layout.offloads or clearly_faster(other, fastest)]


def clearly_faster(other: Candidate, chosen: Candidate) -> bool:
    """Whether it is faster by more than the estimates may err: by more where its states are in host memory alone."""
    hosted = other.layout.offloads and not chosen.layout.offloads
    tie = max(other.tie, _offload_tie(other)) if hosted else other.tie
    return seconds_per_sequence(other) < seconds_per_sequence(chosen) / (1 + tie)


def _offload_tie(candidate: Candidate) -> float:
    assert candidate.time is not None
    share = candidate.time.terms["offload"] / candidate.time.seconds_per_step
    return 0.0 if share * (OFFLOAD_AT_WORST - 1) <= candidate.tie else OFFLOAD_TIE


def waiting_share(candidate: Candidate) -> float:
    """The share of a step in communication that no computation hides."""
    assert candidate.time is not None
    return candidate.time.terms["communication"] / candidate.time.seconds_per_step


# The table of strategies begins with the simplest. What shards the same by the same engine, over other groups of ranks,
# is as simple: the faster of FSDP and HSDP is taken, whose estimates err alike.
_KINDS = [*dict.fromkeys((row.engine, row.shards) for row in STRATEGIES.values())]
_RANK = {name: _KINDS.index((row.engine, row.shards)) for name, row in STRATEGIES.items()}


def rank_of(candidate: Candidate) -> int:
    """The rank of its strategy by simplicity; the smaller is simpler."""
    return _RANK[candidate.layout.strategy]


def _complexity(candidate: Candidate) -> tuple[bool | int | float, ...]:
    """What can be built is simpler than shared layers, which cannot; only states on the host are less simple still,
    and weights beside them. Of layouts that are alike in all that those with the global batch that the recipe states,
    and of these the fastest, with layers recomputed where that pays.
    """
    layout = candidate.layout
    kinds = layout.mesh.ranks_per_layer, rank_of(candidate), candidate.other_batch
    return (*_measures(layout), *kinds, seconds_per_sequence(candidate) * (1 + AS_FAST * layout.checkpointing))


def _least_memory(candidate: Candidate) -> tuple[bool | int | float, ...]:
    return (*_measures(candidate.layout), candidate.memory.peak_allocated_bytes, *_complexity(candidate))


def _measures(layout: Layout) -> tuple[bool, bool, bool, bool]:
    return layout.offloads, layout.hosts_weights, layout.mesh.ranks_per_layer > 1, layout.activation_offload
