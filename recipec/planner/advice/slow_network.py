"""W0519: nodes that wait for the network between them, with what helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.diagnostics.model import Diagnostic, Label
from recipec.estimate.cost import Cost
from recipec.planner.advice.assumed import LEAST_NETWORK_GBPS
from recipec.planner.advice.budget import over_budget
from recipec.planner.advice.change import toml
from recipec.planner.advice.whole_runs import instead
from recipec.planner.plan import OnFewer, Plan, StagePlan
from recipec.planner.search.bounds import TIE
from recipec.planner.search.preference import MOSTLY
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
    yield from on_fewer_nodes(loaded, plan)
    yield from one_node_instead(loaded, plan)
    for stage in plan.stages:
        yield from stage.less_waiting
    yield "connect the nodes with a faster network"


def one_node_instead(loaded: LoadedRecipe, plan: Plan) -> Iterator[str]:
    """One node, where all stages train the same on it in less time or for less money."""
    if run := _pays([stage.on_one_node for stage in plan.stages], plan):
        yield _told(loaded, plan, [stage.on_one_node for stage in plan.stages], run)


def on_fewer_nodes(loaded: LoadedRecipe, plan: Plan) -> Iterator[str]:
    """The fewest nodes that are hardly slower, where one node is clearly slower than these."""
    together = [*zip(*(stage.on_fewer_nodes for stage in plan.stages), strict=False)]
    fewest = together[-1] if together else ()
    run, alone = (_pays(there, plan) for there in (fewest, [stage.on_one_node for stage in plan.stages]))
    if run and not (alone and alone.seconds <= (1 + TIE) * run.seconds):
        yield _told(loaded, plan, fewest, run)


def _pays(there: Sequence[OnFewer], plan: Plan) -> Cost | None:
    """The run of all stages on fewer nodes, where it takes less time or money."""
    runs = [then.cost for then in there if then.cost is not None]
    if len(runs) < len(plan.stages):
        return None
    usd = None if plan.cost_usd is None else sum(run.usd or 0 for run in runs)
    cheaper = usd is not None and plan.cost_usd is not None and usd < plan.cost_usd
    run = Cost(sum(run.seconds for run in runs), usd, "")
    return run if run.seconds < plan.seconds or cheaper else None


def _told(loaded: LoadedRecipe, plan: Plan, there: Sequence[OnFewer], run: Cost) -> str:
    """The lines to set, and the run that they give beside that of the plan."""
    machines = there[0].machines
    assert machines is not None
    now, gpus = Cost(plan.seconds, plan.cost_usd, ""), plan.stages[0].decisions["gpus"].value
    then = f"{instead(run, now)}{over_budget(loaded, run, now, machines.gpus, gpus)}"
    told = ", ".join([*dict.fromkeys(each.takes for each in there if each.takes), then])
    pins = dict.fromkeys(f"`{key} = {toml(value)}`" for each in there for key, value in each.pins)
    lines = " and ".join([f"`hardware.nodes = {machines.nodes}`", *pins])
    return f"train on {'one node' if machines.nodes == 1 else f'{machines.nodes} nodes'}: set {lines}: {told}"


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
