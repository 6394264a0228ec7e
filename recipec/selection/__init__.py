"""Which model, where the recipe leaves it open: acceptable ones in order, each one tried by planning it."""

from __future__ import annotations

from recipec.diagnostics.model import Report
from recipec.facts import Facts, Given, with_model
from recipec.planner.plan import Selection
from recipec.recipe import LoadedRecipe

Chosen = tuple[Facts, Selection | None]  # and how the model was chosen; None where the recipe names it


def choose_model(loaded: LoadedRecipe, given: Given, report: Report) -> Chosen | None:
    """The facts with the model that the recipe names or, for `auto`, the selected one; None with E0408 without one."""
    if given.model is not None:
        return with_model(loaded, given, given.model), None
    from recipec.selection.select import select_model

    return select_model(loaded, given, report)
