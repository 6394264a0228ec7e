"""Changed stages of a recipe with their whole run, where it keeps to the budget."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.estimate.cost import Cost
from recipec.planner.advice.budget import within_budget
from recipec.planner.advice.ways_out import Pairs
from recipec.planner.runs import fitted, whole_runs
from recipec.planner.search.context import Context
from recipec.recipe import LoadedRecipe


def in_budget(loaded: LoadedRecipe, given: Sequence[Context], gpus: int) -> tuple[Pairs, Cost] | None:
    """All stages with their whole run; None where one of them does not fit, or the run exceeds the budget."""
    pairs = fitted(given, loaded)
    run = whole_runs(pairs, loaded) if pairs else None
    if run is None or not within_budget(loaded, run, gpus):
        return None
    return pairs, run
