"""A stage on fewer GPUs, or on one of its nodes: with the adaptation of its plan, or with what is trained instead."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.layout import Machines
from recipec.planner.advice.assumed import LEAST_NETWORK_GBPS
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.waiting import waits_for_network
from recipec.planner.advice.whole_runs import WholeRuns, same_adaptation, takes
from recipec.planner.plan import OnFewer
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.measures import acceptable_adaptations
from recipec.planner.search.names import adaptation_name
from recipec.recipe import LoadedRecipe


def on_used(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> OnFewer:
    """On no more GPUs than have work; nothing where these are known to train the same."""
    assert found.chosen is not None
    machines, used = context.facts.machines, found.chosen.layout.gpus
    nodes = -(-used // machines.gpus_per_node)
    fewer = Machines(nodes, used // nodes)
    if _stays_first(context, found, fewer):
        return OnFewer()
    return _planned(context, found, loaded, fewer, runs)


def _stays_first(context: Context, found: Fit, fewer: Machines) -> bool:
    """Whether the plan has what the rules put first, without measures that the present machines ask for: it fits on
    those that it uses alone, and is first there as well."""
    assert found.chosen is not None
    layout = found.chosen.layout
    there, here = (acceptable_adaptations(each) for each in (on_machines(context, fewer), context))
    order = [name for name, _ in here]
    plain = layout.on_device and layout.mesh.ranks_per_layer == 1
    return plain and order[0] == layout.adaptation and order == [name for name, _ in there]


def on_one_node(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> OnFewer:
    """On one node, where the recipe states a slow network between several, or these mostly wait for it."""
    assert found.chosen is not None
    machines, stated = context.facts.machines, loaded.recipe.hardware.network_gbps
    slow = stated is not None and stated < LEAST_NETWORK_GBPS
    if machines.nodes == 1 or not (slow or waits_for_network(machines, found.chosen)):
        return OnFewer()
    return _planned(context, found, loaded, Machines(1, machines.gpus_per_node), runs)


def _planned(context: Context, found: Fit, loaded: LoadedRecipe, fewer: Machines, runs: WholeRuns) -> OnFewer:
    changed = on_machines(context, fewer)
    then = fit(changed, loaded)
    if _alike(then, found):
        return OnFewer(cost=runs.of(changed, then), takes=_takes(then, found))
    wishes = same_adaptation(context, found)
    kept = replace(changed, wishes=wishes)
    same = fit(kept, loaded)
    if _alike(same, found):
        pins = tuple((key, wish.value) for key, wish in wishes.items() if key not in context.wishes)
        return OnFewer(pins=pins, cost=runs.of(kept, same), takes=_takes(same, found))
    return OnFewer(otherwise=adaptation_name(context.stage.name, then.chosen.layout) if then.chosen else "")


def _takes(then: Fit, found: Fit) -> str:
    assert then.chosen is not None and found.chosen is not None
    return takes(then.chosen.layout, found.chosen.layout)


def _alike(then: Fit, found: Fit) -> bool:
    """Whether a bundle can train the same."""
    assert found.chosen is not None
    adapts = found.chosen.layout.adapts
    return then.chosen is not None and then.chosen.layout.can_be_built and then.chosen.layout.adapts is adapts
