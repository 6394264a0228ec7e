"""Other plans of the rows of a recipe, for a budget that its own plan exceeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.diagnostics.model import Report
from recipec.estimate.cost import Cost
from recipec.facts import Facts
from recipec.facts.gather import with_hardware
from recipec.layout import Layout, Machines
from recipec.planner.advice.budget import Others, share_left, within_budget
from recipec.planner.advice.change import Change, Proposal, pins, setting
from recipec.planner.advice.less_waiting import ADAPTER
from recipec.planner.advice.whole_runs import measures, smaller
from recipec.planner.in_budget import in_budget
from recipec.planner.less_training import a_smaller_model, fewer_passes
from recipec.planner.plan import Plan
from recipec.planner.planner import contexts, plan_recipe
from recipec.planner.runs import fitted, whole_runs
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.recipe import LoadedRecipe
from recipec.recipe.changed import agrees
from recipec.rules.core import Wish
from recipec.units import duration, usd


def other_plans(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Others:
    """What else could be planned, each at most once; of several tasks nothing else, as they share their GPUs."""
    given, alone = (loaded, facts, plan), len(loaded.tasks) == 1
    without_judge = cache(partial(_without_judge, *given))
    ways = (_on_other_layouts, _on_fewer, _on_adapters, _shorter, _smaller)
    return Others(without_judge, *(cache(partial(make, *given)) if alone else str for make in ways))


def _on_other_layouts(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> str:
    """The first alternative of a stage that the budget has room for, planned for all stages."""
    for change, family in _faster(plan, share_left(loaded, plan)):
        if found := in_budget(loaded, _asking(loaded, facts, change), facts.machines.gpus, change):
            pairs, run = found
            return _line(change, f"{family} takes {_figures(run)}", plan, _layouts(pairs))
    return ""


def _faster(plan: Plan, share: float) -> Iterator[tuple[Change, str]]:
    """The alternatives of stages that would be fast enough, were all else as before."""
    for stage in plan.stages:
        for other in stage.rejected:
            seconds = other.seconds if other.is_open else None
            if seconds is not None and plan.seconds - stage.seconds + seconds <= share * plan.seconds:
                yield pins(other.layout), other.family


def _on_fewer(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> str:
    """The most of half the nodes, half of those, and so on, or GPUs of one node, that train the same in the budget."""
    now, most_hours = facts.machines, loaded.recipe.budget.max_hours
    key = "nodes" if now.nodes > 1 else "gpus_per_node"
    for machines in _with_trainers(_halves(facts), plan):
        change = Change(((f"hardware.{key}", getattr(machines, key)),))
        if not agrees(loaded, change.sets, change.removes):
            continue
        pairs = fitted(contexts(loaded, with_hardware(facts, facts.gpu, machines)), loaded)
        layouts = _layouts(pairs)
        if [each.adapts for each in layouts] != [stage.layout.adapts for stage in plan.stages]:
            continue
        run = whole_runs(pairs, loaded)
        if within_budget(loaded, run, machines.gpus):
            return _told(change, plan, layouts, run)
        if most_hours is not None and run.seconds > 3600 * most_hours:
            return ""
    return ""


def _with_trainers(fewer: Sequence[Machines], plan: Plan) -> list[Machines]:
    """Those with a GPU that trains beside the ones of a node that only write answers."""
    serve = max(stage.layout.served_by for stage in plan.stages)
    return [each for each in fewer if each.gpus_per_node > serve]


def _halves(facts: Facts) -> list[Machines]:
    now = facts.machines
    counts = {count >> times for count in (now.nodes, now.gpus_per_node) for times in range(1, count.bit_length())}
    fewer = smaller(now, facts.gpu.measured is not None)
    nodes = [each for each in fewer if each.gpus_per_node == now.gpus_per_node and each.nodes in counts]
    parts = [each for each in fewer if each.gpus_per_node in counts and each.gpus_per_node < now.gpus_per_node]
    return [*reversed(nodes if now.nodes > 1 else parts)]


def _on_adapters(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> str:
    """Adapters where all weights train, within the budget."""
    if not all(
        stage.layout.adapts.trains_all and ADAPTER.name in METHODS[stage.stage.name].adaptations
        for stage in plan.stages
    ):
        return ""
    change = setting(train__adaptation=ADAPTER.family)
    found = in_budget(loaded, _asking(loaded, facts, change), facts.machines.gpus, change)
    return _told(change, plan, _layouts(found[0]), found[1]) if found else ""


def _asking(loaded: LoadedRecipe, facts: Facts, change: Change) -> list[Context]:
    """All stages, each with the keys of a change."""
    wishes = {key: Wish(value, "within the budget") for key, value in change.sets}
    return [replace(context, wishes={**context.wishes, **wishes}) for context in contexts(loaded, facts)]


def _shorter(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> str:
    """Fewer passes over the rows."""
    found = fewer_passes(loaded, facts, plan)
    return _told(found[0], plan, _layouts(found[1]), found[2]) if found else ""


def _smaller(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> str:
    """A smaller model."""
    found = a_smaller_model(loaded, facts, plan)
    if not found:
        return ""
    change, pairs, run = found
    return _line(change, f"the whole run takes {_figures(run)}", plan, _layouts(pairs))


def _layouts(pairs: Sequence[tuple[Context, Fit]]) -> list[Layout]:
    return [found.chosen.layout for _, found in pairs if found.chosen is not None]


def _told(change: Change, plan: Plan, layouts: Sequence[Layout], run: Cost) -> str:
    """A change with its whole run, and what the same training then takes that it does not take now."""
    now = [stage.layout for stage in plan.stages]
    kept = [(then, before) for then, before in zip(layouts, now, strict=True) if then.adapts is before.adapts]
    more = dict.fromkeys(measures(then, before) for then, before in kept)
    effect = ", ".join(filter(None, (*more, f"the whole run takes {_figures(run)}")))
    return _line(change, effect, plan, layouts)


def _figures(run: Cost) -> str:
    """Time and money of a whole run: "9 min and costs $53.77"."""
    return duration(run.seconds) + ("" if run.usd is None else f" and costs {usd(run.usd)}")


def _line(change: Change, effect: str, plan: Plan, layouts: Sequence[Layout]) -> str:
    return Proposal(change, effect, plan.stages[-1].layout, layouts[-1]).told


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
