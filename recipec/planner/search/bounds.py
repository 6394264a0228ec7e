"""What the layouts of a stage must respect, and what they are measured by."""

from __future__ import annotations

from math import inf

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.tasks import AUTO
from recipec.estimate.links import Link, link_of
from recipec.estimate.many_rows import RowOrder
from recipec.estimate.padding import padded_tokens
from recipec.estimate.workload import Workload
from recipec.facts import Facts
from recipec.facts.node import Node, node_of
from recipec.planner.search.context import Context
from recipec.planner.search.global_batch import most_with_steps
from recipec.planner.search.usual_rows import beside_rows, spread, typical
from recipec.planner.search.workload import order_of, work_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger
from recipec.units import GIB

# Of host memory: the system and the file cache take the rest; what is assumed may be less. Our decision.
STATED_HOST_SHARE, ASSUMED_HOST_SHARE = 0.95, 0.9
TIE = 0.25  # predicted times closer than this count as equal (the estimates err by more), so the simpler layout wins
# The same where a recipe puts something first: with speed the faster is taken though the estimates may err; with memory
# twice, for a smaller micro batch and for another layout, so that both together stay within the usual limit.
TIES = {"speed": 0.05, "memory": (1 + TIE) ** 0.5 - 1}
NEAR = 0.07  # of a global batch: what ranks, or micro batches that they compute well, may make more of it; our decision
AS_FAST = 0.02  # of a step's time: what a larger micro batch, or recomputing layers, must save; our decision


class Bounds(Struct, frozen=True):
    """What a candidate must respect, and what it is measured by."""

    host_bytes: int | None  # host memory of a node that a plan may take; None: neither stated nor known
    host_assumed: bool  # whether neither the recipe nor a measurement says it
    global_batch: int
    most_in_batch: float  # that the recipe says or the rule accepts, or nearly
    stated: bool  # whether the recipe says it
    micro_batch: int | None  # fixed by the recipe
    link: Link  # between the devices
    passes: float  # of the training over its rows
    typical: Workload  # a step with examples of the usual length, for the time; memory must hold the longest ones
    beside_tokens: int  # of a sequence of that length, those that its row does not have: as many in every one
    tokens_p99: int | None  # of rows drawn at random; None where lengths decide the order, or are not known
    tie: float  # predicted times closer than this count as equal
    of_batch: bool  # whether the global batch takes a part of what counts as equal
    by_memory: bool  # whether of these the one is taken that takes least memory, and not the simplest
    order: RowOrder  # of the sequences of an epoch
    followed: bool  # whether the launch script merges an adapter after training, because a stage goes on from it

    @property
    def least_micro_batch(self) -> int:
        """The smallest micro batch that the method can learn from."""
        return self.typical.method.least_micro_batch

    @property
    def as_fast(self) -> float:
        """Times the time of the fastest micro batch that a smaller one may take."""
        return 1 + (self.tie if self.by_memory else AS_FAST)

    def padded_tokens(self, rows: int) -> int:
        """Of a sequence of usual length where so many meet: its row is padded to the longest row of them."""
        own = self.typical.seq_len_tokens - self.beside_tokens
        return round(padded_tokens(own, self.tokens_p99, rows)) + self.beside_tokens


def bounds_of(context: Context, ledger: Ledger, loaded: LoadedRecipe) -> Bounds:
    """The bounds of a stage under one adaptation."""
    facts, value, hardware = context.facts, ledger.decisions, loaded.recipe.hardware
    batch = value["global_batch_size"]
    raised = batch.origin == "planner"
    most = batch.value if batch.origin == "recipe" else batch.accepts and batch.accepts[1]
    node, micro_batch = node_of(hardware, facts.gpu, facts.machines.gpus_per_node), context.wishes.get(_MICRO_BATCH)
    assumed = "host_memory_gib" in node.assumed
    return Bounds(
        host_bytes=None if node.host_memory_gib is None else usable_host_bytes(node.host_memory_gib, assumed),
        host_assumed=assumed,
        global_batch=batch.value,
        most_in_batch=min((1 + NEAR) * most, most_with_steps(ledger) if raised else inf) if most else inf,
        stated=batch.origin == "recipe",
        micro_batch=None if micro_batch is None else micro_batch.value,
        link=_link(facts, node, hardware.gpu_link or AUTO),
        passes=value["passes"].value,
        typical=typical(work_of(ledger, facts), value),
        beside_tokens=beside_rows(work_of(ledger, facts), value),
        tokens_p99=spread(value),
        tie=_tie(value["priority"].value, context.slower),
        of_batch=context.slower > 1,
        by_memory=value["priority"].value == "memory",
        order=order_of(ledger),
        followed=value["stage"].value != value["stages"].value[-1],
    )


def _tie(priority: str, slower: float) -> float:
    """What counts as equal, where the global batch already takes so many times the time of the fastest."""
    left = (1 + TIE) / slower
    return min(TIES.get(priority, TIE), (left**0.5 if priority == "memory" else left) - 1)


_MICRO_BATCH = "train.micro_batch_size"


def usable_host_bytes(memory_gib: float, assumed: bool) -> int:
    """What a plan may take of the host memory of a node."""
    return int(memory_gib * (ASSUMED_HOST_SHARE if assumed else STATED_HOST_SHARE) * GIB)


def host_gib(needed_bytes: int) -> float:
    """Host memory that a recipe must state for a plan that takes so much of it, in GiB."""
    return needed_bytes / STATED_HOST_SHARE / GIB


def _link(facts: Facts, node: Node, kind: str) -> Link:
    rate = inf if facts.machines.nodes == 1 or node.network_gbps is None else node.network_gbps
    link = link_of(facts.gpu, kind, facts.machines.gpus_per_node, rate)
    return replace(link, host_cores=node.host_cores)
