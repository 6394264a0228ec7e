"""Other plans of the rows of a recipe, for a budget that its own plan exceeds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from recipec.diagnostics.model import Report
from recipec.facts import Facts
from recipec.facts.gather import with_hardware
from recipec.layout import Machines
from recipec.planner.advice.budget import Others
from recipec.planner.advice.change import Change
from recipec.planner.plan import Plan
from recipec.planner.planner import plan_recipe
from recipec.recipe import LoadedRecipe


def other_plans(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Others:
    """What else could be planned; of several tasks nothing on fewer GPUs, as they share them."""
    on_fewer = partial(_on_fewer, loaded, facts) if len(loaded.tasks) == 1 else tuple
    return Others(partial(_without_judge, loaded, facts, plan), on_fewer)


def _on_fewer(loaded: LoadedRecipe, facts: Facts) -> Iterator[tuple[Change, Plan]]:
    """Plans on half the nodes, half of those, and so on, or GPUs of one node."""
    key = "nodes" if facts.machines.nodes > 1 else "gpus_per_node"
    for machines in reversed([*_halves(facts)]):
        plan = plan_recipe(loaded, with_hardware(facts, facts.gpu, machines), Report())
        if plan is not None:
            yield Change(((f"hardware.{key}", getattr(machines, key)),)), plan


def _halves(facts: Facts) -> Iterator[Machines]:
    nodes, gpus = facts.machines.nodes, facts.machines.gpus_per_node
    while nodes > 1:
        nodes //= 2
        yield Machines(nodes, gpus)
    while facts.machines.nodes == 1 and gpus > 1 and not facts.gpu.measured:  # a part of a node has other rates
        gpus //= 2
        yield Machines(1, gpus)


def _without_judge(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Plan | None:
    """The plan of the method that would learn from the pairs themselves; None where `plan` trains no judge of answers.

    What [alignment] says of the method that is replaced says nothing of the other one.
    """
    if not any(stage.stage.judge for stage in plan.stages):
        return None
    free = replace(facts.decisions["kl_control"], value="low")
    recipe = loaded.recipe.model_copy(update={"alignment": type(loaded.recipe.alignment)()})
    freed = replace(loaded, recipe=recipe)
    return plan_recipe(freed, replace(facts, decisions={**facts.decisions, free.id: free}), Report())
