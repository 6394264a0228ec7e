"""Changed stages of a recipe with their whole run, where it keeps to the budget."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.estimate.cost import Cost
from recipec.planner.advice.budget import within_budget
from recipec.planner.advice.change import Change
from recipec.planner.advice.ways_out import Pairs
from recipec.planner.runs import each_fitted, summed, whole_runs
from recipec.planner.search.context import Context
from recipec.recipe import LoadedRecipe
from recipec.recipe.changed import agrees


def in_budget(loaded: LoadedRecipe, given: Sequence[Context], gpus: int, change: Change) -> tuple[Pairs, Cost] | None:
    """All stages of a changed recipe with their whole run; None where its keys do not hold together, one of the stages
    does not fit, or the run exceeds the budget: no further stage is planned then."""
    if not agrees(loaded, change.sets, change.removes):
        return None
    pairs, run = [], Cost(0, 0, "")
    for pair in each_fitted(given, loaded):
        if pair is None:
            return None
        pairs, run = [*pairs, pair], summed([run, whole_runs([pair], loaded)])
        if not within_budget(loaded, run, gpus):
            return None
    return pairs, run
