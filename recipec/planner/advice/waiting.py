"""What would shorten a plan that mostly waits for the network: each way timed like the plan itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.facts import Facts
from recipec.layout import Machines
from recipec.planner.search.candidates import Bounds, Candidate, best, seconds_per_sequence, usual_time

MOSTLY = 0.5  # of a step; our decision
NETWORKS_GBPS = (200, 400, 800, 1600, 3200)  # one to eight adapters of 200 or 400 Gbit/s (InfiniBand HDR, NDR)


def shorter_waits(facts: Facts, chosen: Candidate, tried: Sequence[Candidate], bounds: Bounds) -> tuple[str, ...]:
    """A network with which this layout waits for half of a step at most, and fewer nodes, also where some are idle."""
    world, machines = chosen.layout.mesh.world_size, facts.machines
    waits = world > machines.gpus_per_node and waiting_share(chosen) > MOSTLY
    network = _faster_network(facts, chosen, bounds) if waits else ()
    idle = machines.gpus - world >= machines.gpus_per_node
    return (*network, *(_fewer_nodes(machines, chosen, tried) if waits or idle else ()))


def waiting_share(candidate: Candidate) -> float:
    """The share of a step in communication that no computation hides."""
    assert candidate.time is not None
    return candidate.time.terms["communication"] / candidate.time.seconds_per_step


def _faster_network(facts: Facts, chosen: Candidate, bounds: Bounds) -> Iterator[str]:
    """The slowest network that is enough; with a slower one than now it would wait longer."""
    for rate in NETWORKS_GBPS:
        link = replace(bounds.link, network_gb_s=rate / 8)
        time = usual_time(facts.model.architecture, chosen.layout, replace(bounds, link=link), facts.gpu)
        faster = replace(chosen, time=time)
        if waiting_share(faster) <= MOSTLY:
            yield f"`hardware.network_gbps = {rate}` takes {_ratio(faster, chosen):.2g}x the time"
            return


def _fewer_nodes(machines: Machines, chosen: Candidate, tried: Sequence[Candidate]) -> Iterator[str]:
    """The fewest nodes that cost less: every node is paid for as long as the training takes."""
    alike = [other for other in tried if _alike(other, chosen)]
    for nodes in range(1, machines.nodes):
        most = nodes * machines.gpus_per_node
        found = best([other for other in alike if other.layout.mesh.world_size <= most])
        if found is not None and (ratio := _ratio(found, chosen)) * nodes < machines.nodes:
            time = f"{ratio:.2g}x the time" if found.layout != chosen.layout else "the same time"
            yield f"`hardware.nodes = {nodes}` takes {time} at {ratio * nodes / machines.nodes:.2g}x the cost"
            return


def _alike(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains and keeps the same, and can be built where the chosen one can."""
    kept = ("adaptation", "quantization", "offload", "activation_offload")
    same = all(getattr(other.layout, name) == getattr(chosen.layout, name) for name in kept)
    return same and other.layout.mesh.ranks_per_layer <= chosen.layout.mesh.ranks_per_layer


def _ratio(one: Candidate, other: Candidate) -> float:
    return seconds_per_sequence(one) / seconds_per_sequence(other)
