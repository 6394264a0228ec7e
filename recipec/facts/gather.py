"""Look up the model and the hardware and look at the data that a recipe names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recipec.catalog.gpus import Gpu
from recipec.catalog.models import Model
from recipec.diagnostics.model import Report
from recipec.facts.data import DataFacts, data_facts
from recipec.facts.fact import known, stated
from recipec.facts.hardware import hardware_facts, look_up_gpu
from recipec.facts.model import look_up_model, model_facts
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is given."""

    model: Model
    gpu: Gpu
    gpus: int
    decisions: Mapping[str, Decision]  # facts that hold for every stage
    data: Mapping[str, DataFacts]  # "train", "preferences": what the recipe's sources hold


def gather(loaded: LoadedRecipe, report: Report) -> Facts | None:
    """All facts of a recipe; None when something it names is missing or unreadable (see the report)."""
    model, gpu = look_up_model(loaded, report), look_up_gpu(loaded, report)
    data = {name: data_facts(loaded, name, report) for name in ("train", "preferences") if loaded.is_set("data", name)}
    if model is None or gpu is None or report.has_errors:
        return None
    facts = [*_goal(loaded), *model_facts(loaded, model), *hardware_facts(loaded, gpu)]
    return Facts(
        model,
        gpu,
        loaded.recipe.hardware.gpus_per_node or 1,
        {fact.id: fact for fact in facts},
        {name: found for name, found in data.items() if found is not None},
    )


def _goal(loaded: LoadedRecipe) -> list[Decision]:
    goal, data = loaded.recipe.goal, loaded.recipe.data
    return [
        stated(loaded, "task", goal.task, "goal", "task"),
        stated(loaded, "priority", goal.priority, "goal", "priority", absent="no priority: balanced"),
        stated(loaded, "new_domain", bool(goal.new_domain), "goal", "new_domain"),
        stated(loaded, "first_time", bool(goal.first_time), "goal", "first_time"),
        known("has_preferences", data.preferences is not None, _given(loaded, "preferences"), origin="recipe"),
        known("has_eval_file", data.eval is not None, _given(loaded, "eval"), origin="recipe"),
        known("has_test_file", data.test is not None, _given(loaded, "test"), origin="recipe"),
    ]


def _given(loaded: LoadedRecipe, name: str) -> str:
    return f"set in {loaded.where('data', name)}" if loaded.is_set("data", name) else f"no data.{name}"
