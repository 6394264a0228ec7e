"""W0519: nodes that wait for the network between them, with what helps."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic, Label
from recipec.estimate.cost import Cost
from recipec.planner.advice.assumed import LEAST_NETWORK_GBPS
from recipec.planner.advice.budget import over_budget
from recipec.planner.advice.change import toml
from recipec.planner.advice.whole_runs import instead
from recipec.planner.plan import Plan, StagePlan
from recipec.planner.search.candidates import MOSTLY
from recipec.recipe import LoadedRecipe

WAITS_LITTLE = 0.05  # recipec's choice: adapters hardly need a network


def slow_network(loaded: LoadedRecipe, plan: Plan) -> Iterator[Diagnostic]:
    """W0519 where the recipe states a slow network and the plan suffers from it, or where most of a step waits."""
    hardware, nodes = loaded.recipe.hardware, loaded.recipe.hardware.nodes or 1
    stated = hardware.network_gbps
    slow = stated is not None and stated < LEAST_NETWORK_GBPS
    costs = ", ".join(
        filter(None, (_cost_of_network(stage, WAITS_LITTLE if slow else MOSTLY) for stage in plan.stages))
    )
    mostly = any(_waits(stage) > MOSTLY for stage in plan.stages)
    if nodes == 1 or not costs or not (slow or mostly):
        return
    label = Label(loaded.place("hardware", "nodes" if stated is None else "network_gbps"), costs)
    note = (
        f"{LEAST_NETWORK_GBPS} Gbit/s is the minimum for several nodes, at 30% to 40% scaling efficiency "
        "(docs/rule-books/001.md, Networking)"
    )
    title = "the nodes mostly wait for the network between them"
    if slow:
        title = f"the network between nodes has {stated:g} Gbit/s, less than {LEAST_NETWORK_GBPS}"
    yield Diagnostic("W0519", title, (label,), tuple(_ways(loaded, plan)), (note,) if slow else ())


def _ways(loaded: LoadedRecipe, plan: Plan) -> Iterator[str]:
    yield from one_node_instead(loaded, plan)
    for stage in plan.stages:
        yield from stage.less_waiting
    yield "connect the nodes with a faster network"


def one_node_instead(loaded: LoadedRecipe, plan: Plan) -> Iterator[str]:
    """One node, where all stages train the same on it in less time or for less money."""
    runs = [stage.on_one_node.cost for stage in plan.stages]
    seconds = sum(run.seconds for run in runs if run is not None)
    usd = None if plan.cost_usd is None else sum(run.usd or 0 for run in runs if run is not None)
    cheaper = usd is not None and plan.cost_usd is not None and usd < plan.cost_usd
    if None in runs or not (seconds < plan.seconds or cheaper):
        return
    lines = dict.fromkeys(f"`{key} = {toml(value)}`" for stage in plan.stages for key, value in stage.on_one_node.pins)
    run, now = Cost(seconds, usd, ""), Cost(plan.seconds, plan.cost_usd, "")
    gpus, of_a_node = (plan.stages[0].decisions[id].value for id in ("gpus", "gpus_per_node"))
    then = f"{instead(run, now)}{over_budget(loaded, run, now, of_a_node, gpus)}"
    takes = dict.fromkeys(stage.on_one_node.takes for stage in plan.stages if stage.on_one_node.takes)
    told = ", ".join([*takes, then])
    yield f"train on one node: set {' and '.join(['`hardware.nodes = 1`', *lines])}: {told}"


def _waits(stage: StagePlan) -> float:
    """The share of a step that a stage on several nodes waits for them; 0 on one."""
    several = stage.layout.mesh.world_size > stage.decisions["gpus_per_node"].value
    return stage.needs.waiting_share if several else 0.0


def _cost_of_network(stage: StagePlan, least: float) -> str:
    """How long a stage on several nodes waits, or that it stays on one; "" where it waits less than `least`."""
    name = stage.stage.name
    if stage.layout.mesh.world_size <= stage.decisions["gpus_per_node"].value:
        return f"stage {name} stays on one node"
    return f"{_waits(stage):.0%} of a step of stage {name} is exposed communication" if _waits(stage) >= least else ""
