"""A stage on fewer GPUs, or on one of its nodes: with the adaptation of its plan, or with what is trained instead."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from recipec.estimate.cost import Cost
from recipec.layout import Machines
from recipec.planner.advice.assumed import LEAST_NETWORK_GBPS
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.keys import stages_of
from recipec.planner.advice.waiting import waits_for_network
from recipec.planner.advice.whole_runs import ChangedRun, WholeRuns, same_adaptation, takes
from recipec.planner.plan import OnFewer
from recipec.planner.search.bounds import TIE
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.names import adaptation_name
from recipec.recipe import LoadedRecipe
from recipec.units import counted


def on_used(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> OnFewer:
    """On no more GPUs than have work, or else on no more nodes; else why the plan there is not advised. Nothing where
    other stages run on the same GPUs."""
    assert found.chosen is not None
    if len(stages_of(context)) > 1:
        return OnFewer()
    machines, used = context.facts.machines, found.chosen.layout.gpus
    nodes = -(-used // machines.gpus_per_node)
    sizes = Machines(nodes, used // nodes), Machines(nodes, machines.gpus_per_node)
    refused = []
    for fewer in (each for each in dict.fromkeys(sizes) if each.gpus < machines.gpus):
        then = _planned(context, found, loaded, fewer, runs)
        if then.cost is not None and _pays(then.cost, runs.now):
            return then
        refused.append(_refused(fewer, then))
    return OnFewer(refused="; ".join(refused))


def _refused(fewer: Machines, then: OnFewer) -> str:
    """Why fewer GPUs are not advised: what the plan of a recipe with them takes."""
    on = f"on {counted(fewer.gpus, 'GPU')}"
    return f"{on} {then.whole_run}" if then.cost is not None else f"{on} no layout fits that a bundle can train"


def _pays(run: Cost, now: Cost) -> bool:
    """Whether fewer GPUs take neither clearly more time nor more money: the idle ones are paid for, too."""
    dearer = run.usd is not None and now.usd is not None and run.usd > now.usd
    return not dearer and run.seconds <= (1 + TIE) * now.seconds


def on_one_node(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> OnFewer:
    """On one node, where the recipe states a slow network between several, or these mostly wait for it."""
    if not _waits(context, found, loaded):
        return OnFewer()
    then = _planned(context, found, loaded, Machines(1, context.facts.machines.gpus_per_node), runs)
    return OnFewer() if then.otherwise else then


def on_fewer_nodes(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> tuple[OnFewer, ...]:
    """On half the nodes, half of those, and so on, as long as the run is not clearly longer, under the same terms."""
    machines = context.facts.machines
    counts = [machines.nodes >> times for times in range(1, machines.nodes.bit_length() - 1)]
    fewer = (Machines(count, machines.gpus_per_node) for count in counts * _waits(context, found, loaded))
    runs_there = (_planned(context, found, loaded, each, runs) for each in fewer)
    return tuple(takewhile(lambda then: _is_as_fast(then, runs.now), runs_there))


def _is_as_fast(then: OnFewer, now: Cost) -> bool:
    """Whether the same is trained in about the same time."""
    return not then.otherwise and then.cost is not None and then.cost.seconds <= (1 + TIE) * now.seconds


def _waits(context: Context, found: Fit, loaded: LoadedRecipe) -> bool:
    """Whether several nodes have a slow network between them, or mostly wait for it."""
    assert found.chosen is not None
    machines, stated = context.facts.machines, loaded.recipe.hardware.network_gbps
    slow = stated is not None and stated < LEAST_NETWORK_GBPS
    return machines.nodes > 1 and (slow or waits_for_network(machines, found.chosen))


def _planned(context: Context, found: Fit, loaded: LoadedRecipe, fewer: Machines, runs: WholeRuns) -> OnFewer:
    """The plan of a recipe with fewer GPUs, whose nodes are assumed to have less host memory and fewer cores."""
    changed = on_machines(context, fewer)
    then = fit(changed, loaded)
    if _alike(then, found):
        return _on(fewer, runs.of(changed, then), takes=_takes(then, found))
    wishes = same_adaptation(context, found)
    kept = replace(changed, wishes=wishes)
    same = fit(kept, loaded)
    if _alike(same, found):
        pins = tuple((key, wish.value) for key, wish in wishes.items() if key not in context.wishes)
        return _on(fewer, runs.of(kept, same), pins=pins, takes=_takes(same, found))
    if then.chosen is None or not then.chosen.layout.can_be_built:
        return OnFewer()
    otherwise = adaptation_name(context.stage.name, then.chosen.layout)
    return _on(fewer, runs.of(changed, then), otherwise=otherwise)


def _on(fewer: Machines, run: ChangedRun, **how: Any) -> OnFewer:
    return OnFewer(machines=fewer, cost=run, whole_run=run.beside, **how)


def _takes(then: Fit, found: Fit) -> str:
    assert then.chosen is not None and found.chosen is not None
    return takes(then.chosen.layout, found.chosen.layout)


def _alike(then: Fit, found: Fit) -> bool:
    """Whether a bundle can train the same."""
    assert found.chosen is not None
    adapts = found.chosen.layout.adapts
    return then.chosen is not None and then.chosen.layout.can_be_built and then.chosen.layout.adapts is adapts
