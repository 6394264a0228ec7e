"""What would shorten a plan that mostly waits for the network: each way timed like the plan itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.layout import Machines
from recipec.planner.advice.change import other_batch
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.stated import stating
from recipec.planner.advice.whole_runs import WholeRuns, smaller, trains_alike
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate, seconds_per_sequence, usual_time
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.preference import MOSTLY, best, waiting_share
from recipec.recipe import LoadedRecipe
from recipec.units import times

NETWORKS_GBPS = (200, 400, 800, 1600, 3200)  # one to eight adapters of 200 or 400 Gbit/s (InfiniBand HDR, NDR)


def shorter_waits(
    context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns, bounds: Bounds
) -> tuple[str, ...]:
    """A network with which nodes wait for half of a step at most, and fewer nodes, also where some are idle."""
    assert found.chosen is not None
    world, machines = found.chosen.layout.mesh.world_size, context.facts.machines
    waits = waits_for_network(machines, found.chosen)
    network = _faster_network(context, found.chosen, loaded, runs, bounds) if waits else ()
    idle = machines.gpus - world >= machines.gpus_per_node
    return (*network, *(_fewer_nodes(context, found, loaded, runs) if waits or idle else ()))


def waits_for_network(machines: Machines, chosen: Candidate) -> bool:
    """Whether a layout on several nodes mostly waits for them."""
    return chosen.layout.mesh.world_size > machines.gpus_per_node and waiting_share(chosen) > MOSTLY


def _faster_network(
    context: Context, chosen: Candidate, loaded: LoadedRecipe, runs: WholeRuns, bounds: Bounds
) -> Iterator[str]:
    """The slowest network that is enough, planned where the layout would do; a slower one than now is not."""
    facts = context.facts
    for rate in NETWORKS_GBPS:
        link = replace(bounds.link, network_gb_s=rate / 8)
        time = usual_time(facts.model.architecture, chosen.layout, replace(bounds, link=link), facts.gpu)
        if waiting_share(replace(chosen, time=time)) > MOSTLY:
            continue
        changed = stating(loaded, network_gbps=rate)
        found = fit(context, changed)
        then = found.chosen
        if then is not None and trains_alike(then, chosen) and waiting_share(then) <= MOSTLY:
            ratio = runs.of(context, found, changed).seconds / runs.now.seconds
            yield f"`hardware.network_gbps = {rate}` takes {ratio:.2g}x the time{_batch(then, chosen)}"
            return


def _fewer_nodes(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """The fewest nodes on which the whole run costs less, planned: every node is paid for as long as it lasts."""
    machines, chosen = context.facts.machines, found.chosen
    assert chosen is not None
    for fewer in _promising(machines, chosen, found.tried):
        changed = on_machines(context, fewer)
        then = fit(changed, loaded)
        if then.chosen is None or not trains_alike(then.chosen, chosen):
            continue
        ratio = runs.of(changed, then).seconds / runs.now.seconds
        if (cost := ratio * fewer.nodes / machines.nodes) < 1:
            told = f"{times(ratio)} at {cost:.2g}x the cost{_batch(then.chosen, chosen)}"
            yield f"`hardware.nodes = {fewer.nodes}` takes {told}"
            return


def _batch(then: Candidate, chosen: Candidate) -> str:
    batch = other_batch(chosen.layout, then.layout)
    return f" {batch}" if batch else ""


def _promising(machines: Machines, chosen: Candidate, tried: Sequence[Candidate]) -> Iterator[Machines]:
    """Fewer nodes on which a layout that was tried trains for less."""
    alike = [other for other in tried if trains_alike(other, chosen)]
    for fewer in smaller(machines, measured=True):
        other = best([other for other in alike if other.layout.mesh.world_size <= fewer.gpus])
        if other is None:
            continue
        ratio = seconds_per_sequence(other) / seconds_per_sequence(chosen)
        if ratio * fewer.nodes < machines.nodes:
            yield fewer
