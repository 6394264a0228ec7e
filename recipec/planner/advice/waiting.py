"""What would shorten a plan that mostly waits for the network: each way timed like the plan itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.layout import Machines
from recipec.planner.advice.change import other_batch
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.stated import stating
from recipec.planner.advice.whole_runs import smaller
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import MOSTLY, Candidate, best, seconds_per_sequence, usual_time, waiting_share
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.units import times

NETWORKS_GBPS = (200, 400, 800, 1600, 3200)  # one to eight adapters of 200 or 400 Gbit/s (InfiniBand HDR, NDR)


def shorter_waits(context: Context, found: Fit, loaded: LoadedRecipe, bounds: Bounds) -> tuple[str, ...]:
    """A network with which nodes wait for half of a step at most, and fewer nodes, also where some are idle."""
    assert found.chosen is not None
    world, machines = found.chosen.layout.mesh.world_size, context.facts.machines
    waits = waits_for_network(machines, found.chosen)
    network = _faster_network(context, found.chosen, loaded, bounds) if waits else ()
    idle = machines.gpus - world >= machines.gpus_per_node
    return (*network, *(_fewer_nodes(context, found.chosen, found.tried, loaded) if waits or idle else ()))


def waits_for_network(machines: Machines, chosen: Candidate) -> bool:
    """Whether a layout on several nodes mostly waits for them."""
    return chosen.layout.mesh.world_size > machines.gpus_per_node and waiting_share(chosen) > MOSTLY


def _faster_network(context: Context, chosen: Candidate, loaded: LoadedRecipe, bounds: Bounds) -> Iterator[str]:
    """The slowest network that is enough, planned where the layout would do; a slower one than now is not."""
    facts = context.facts
    for rate in NETWORKS_GBPS:
        link = replace(bounds.link, network_gb_s=rate / 8)
        time = usual_time(facts.model.architecture, chosen.layout, replace(bounds, link=link), facts.gpu)
        if waiting_share(replace(chosen, time=time)) > MOSTLY:
            continue
        then = fit(context, stating(loaded, network_gbps=rate)).chosen
        if then is not None and then.layout.can_be_built and _alike(then, chosen) and waiting_share(then) <= MOSTLY:
            yield f"`hardware.network_gbps = {rate}` takes {_ratio(then, chosen):.2g}x the time{_batch(then, chosen)}"
            return


def _fewer_nodes(
    context: Context, chosen: Candidate, tried: Sequence[Candidate], loaded: LoadedRecipe
) -> Iterator[str]:
    """The fewest nodes that cost less, planned: every node is paid for as long as the training takes."""
    machines = context.facts.machines
    for fewer in _promising(machines, chosen, tried):
        then = fit(on_machines(context, fewer), loaded).chosen
        if then is None or not then.layout.can_be_built or not _alike(then, chosen):
            continue
        if (cost := _cost(then, fewer, machines, chosen)) < 1:
            time = times(_ratio(then, chosen))
            yield f"`hardware.nodes = {fewer.nodes}` takes {time} at {cost:.2g}x the cost{_batch(then, chosen)}"
            return


def _batch(then: Candidate, chosen: Candidate) -> str:
    batch = other_batch(chosen.layout, then.layout)
    return f" {batch}" if batch else ""


def _promising(machines: Machines, chosen: Candidate, tried: Sequence[Candidate]) -> Iterator[Machines]:
    """Fewer nodes on which a layout that was tried costs less."""
    alike = [other for other in tried if _alike(other, chosen)]
    for fewer in smaller(machines, measured=True):
        other = best([other for other in alike if other.layout.mesh.world_size <= fewer.gpus])
        if other is not None and _cost(other, fewer, machines, chosen) < 1:
            yield fewer


def _cost(other: Candidate, fewer: Machines, now: Machines, chosen: Candidate) -> float:
    """What training takes in node hours, over what the chosen plan takes."""
    return _ratio(other, chosen) * fewer.nodes / now.nodes


def _alike(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains and keeps the same, and can be built where the chosen one can."""
    kept = ("adaptation", "quantization", "offload", "activation_offload")
    same = all(getattr(other.layout, name) == getattr(chosen.layout, name) for name in kept)
    return same and other.layout.mesh.ranks_per_layer <= chosen.layout.mesh.ranks_per_layer


def _ratio(one: Candidate, other: Candidate) -> float:
    return seconds_per_sequence(one) / seconds_per_sequence(other)
