"""General rows that do not suffice for the share that is replayed."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import GENERAL
from recipec.rules.evaluation import looked_at_general
from recipec.units import percent

ROUNDED = 1.1  # rows and tokens are counted in two digits, and lengths are estimated: recipec's choice
LEAST = 0.01  # of the training tokens: less is hardly seen, where 10% to 30% are usual; recipec's choice


def few_general(loaded: LoadedRecipe, stage: StagePlan) -> Iterator[Diagnostic]:
    """Yield W0549 where prepare_data.py will lack general rows for the planned share."""
    value = {id: decision.value for id, decision in stage.decisions.items()}
    there = value.get(f"{GENERAL}_rows")
    if "replay_rows" not in value or there is None:
        return
    left, needed = there - looked_at_general(value), value["replay_rows"]
    if needed <= ROUNDED * left:
        return
    share = value["replay"]
    reached = max(0, left / needed) * share / (1 - share)
    most = reached / (1 + reached)
    label = Label(loaded.place("data", GENERAL), f"about {there:,} rows")
    title = f"about {needed:,} general rows are needed for {100 * share:.3g}% of the training tokens"
    lower = f"Set `replay = {int(100 * most) / 100}` under [data]."
    none = f"Leave `general` out under [data]: its rows suffice for {percent(most)} of the training tokens."
    help = ("Add general rows.", lower if most >= LEAST else none)
    notes = ("prepare_data.py draws no general row twice, and stops where they do not suffice (REPLAY-001)",)
    yield Diagnostic("W0549", title, (label,), help, notes)
