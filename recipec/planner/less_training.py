"""Fewer passes over the rows of a recipe, and smaller models, with which its whole run keeps to a budget."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from math import floor

from msgspec.structs import replace

from recipec.estimate.cost import Cost
from recipec.estimate.whole_run import PREPARATION, TOKENIZATION
from recipec.facts import Facts
from recipec.planner.advice.budget import share_left
from recipec.planner.advice.change import Change
from recipec.planner.advice.changes import Changes, halved_models, smaller_model, within
from recipec.planner.advice.keys import as_written
from recipec.planner.advice.ways_out import Pairs, same
from recipec.planner.in_budget import in_budget
from recipec.planner.plan import Plan
from recipec.planner.planner import contexts
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.planner.search.nothing_learned import learns_nothing
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

LEAST_PASSES = 0.1  # of those that are planned: a smaller model learns more in the time of fewer; our decision
_ROUNDED = (1.0, 0.9, 0.8)  # of the passes that would be enough by the time of a step alone
_MODELS = 4  # of a kind that are tried, the largest first; our decision
_OF_ROWS = (PREPARATION, TOKENIZATION)  # parts of a run that read rows, and no model
_EPOCHS, _STEPS = "train.epochs", "train.max_steps"

Sets = tuple[str, float]  # a key and its value
Planned = tuple[Change, Pairs, Cost]  # a change, with every stage and the whole run behind it


def fewer_passes(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Planned | None:
    """As many passes of every stage as the budget has room for; None where that is a small part of them."""
    training, given = sum(stage.seconds for stage in plan.stages), contexts(loaded, facts)
    share = 1 - (1 - share_left(loaded, plan)) * plan.seconds / training  # other parts take as long with fewer steps
    for part in (share * rounded for rounded in _ROUNDED):
        if part < LEAST_PASSES:
            return None
        sets = [_shortened(context, plan, part) for context in given]
        changed = [_asking(context, *pair) for context, pair in zip(given, sets, strict=True)]
        own = [as_written(Change((pair,)), context).sets for context, pair in zip(given, sets, strict=True)]
        change = Change(tuple(chain(*own)))
        found = in_budget(loaded, changed, facts.machines.gpus, change)
        if found and not any(map(_learns_nothing, found[0])):
            return change, *found
    return None


def _shortened(context: Context, plan: Plan, part: float) -> Sets:
    """The key that says how long a stage trains, and that part of its value."""
    decided = next(stage.decisions for stage in plan.stages if stage.stage.name == context.stage.name)
    if _STEPS in context.wishes:
        return _STEPS, max(1, floor(part * decided["max_steps"].value))
    hundredths = max(1, floor(100 * part * decided["epochs"].value))
    return _EPOCHS, hundredths // 100 if hundredths % 100 == 0 else hundredths / 100


def _learns_nothing(pair: tuple[Context, Fit]) -> bool:
    context, found = pair
    assert found.ledger is not None
    decisions = found.ledger.decisions
    return learns_nothing(context.stage.name, decisions["total_steps"].value, decisions)


def a_smaller_model(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Planned | None:
    """The largest of a few smaller models with which the run keeps to the budget: of the family, or of another one."""
    first, *others = contexts(loaded, facts)
    most = facts.model.architecture.params * min(1.0, 2 * _share_left(loaded, plan))
    for kind in (smaller_model, halved_models):
        for change, changed in islice(_up_to(kind, first, most, loaded), _MODELS):
            given = [changed, *(same(kind, change, other) for other in others)]
            if found := in_budget(loaded, given, facts.machines.gpus, change):
                return change, *found
    return None


def _share_left(loaded: LoadedRecipe, plan: Plan) -> float:
    """The part of a plan's time that the budget leaves, without what takes as long with any model: 0 or less where that
    alone exceeds it."""
    fixed = sum(part.seconds for stage in plan.stages for part in stage.parts if part.name in _OF_ROWS) / plan.seconds
    return (share_left(loaded, plan) - fixed) / (1 - fixed)


def _up_to(kind: Callable[[Context], Changes], context: Context, params: float, loaded: LoadedRecipe) -> Changes:
    """Models that are small enough for the time of a step to be, and that a shared recipe allows."""
    for change, changed in kind(context):
        if changed.facts.model.architecture.params <= params and within(changed, loaded.recipe.policy):
            yield change, changed


def _asking(context: Context, key: str, value: object) -> Context:
    return replace(context, wishes={**context.wishes, key: Wish(value, "within the budget")})
