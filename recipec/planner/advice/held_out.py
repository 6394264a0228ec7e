"""Written shares of rows for evaluation and test that leave no row to train on."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe
from recipec.rules.evaluation import rows_left
from recipec.units import counted

_SHARES = ("data.eval_fraction", "data.test_fraction")


def nothing_left(loaded: LoadedRecipe, stage: StagePlan, section: str) -> Iterator[Diagnostic]:
    """Yield E0205 where the recipe's shares leave no training row of a known number of rows."""
    value = {id: decision.value for id, decision in stage.decisions.items()}
    rows, written = stage.decisions["source_rows"], [key for key in _SHARES if loaded.is_set(*key.split("."))]
    if not written or rows.origin == "default" or rows_left(value) > 0:
        return
    labels = [Label(loaded.place(*key.split(".")), "a share of the rows that is not trained on") for key in written]
    labels.append(Label(loaded.place("data", section), counted(rows.value, "row")))
    names = " and ".join(f"`{key}`" for key in written)
    title = f"{names} leave{'s' * (len(written) == 1)} none of {counted(rows.value, 'row')} to train on"
    help = (f"lower {names}: the usual share is 0.1", "add rows")
    yield Diagnostic("E0205", title, tuple(labels), help)
