"""Answers that a thinking model writes while it learns, and that end inside its thought (W0525)."""

from __future__ import annotations

from recipec.axes import METHODS
from recipec.axes.variants import VARIANTS
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.converting import OFF
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe

LEAST_TOKENS = 2048  # recipec's choice: thoughts of published models take thousands of tokens
_ENOUGH = 4096
_REASONING = "reasoning"  # the purpose of models that have no other mode


def cut_thoughts(loaded: LoadedRecipe, model: Model, stage: StagePlan, report: Report) -> None:
    """Report too few tokens for the answers of a model that thinks before it answers (W0525)."""
    if not METHODS[stage.stage.name].generates or not _thinks(model, stage):
        return
    most = stage.decisions["max_new_tokens"].value
    if most >= LEAST_TOKENS:
        return
    label = Label(_place(loaded, stage), f"an answer has at most {most:,} tokens")
    help = [f"set `alignment.generation.max_new_tokens = {_ENOUGH}` or more; longer answers need more memory and time"]
    if model.purpose != _REASONING:
        help.append('or set `reasoning = "off"` under [data]: prompts then end with an empty thought')
    title = f"{model.name} thinks before it answers, and its answers may be cut inside the thought"
    report.add(Diagnostic("W0525", title, (label,), tuple(help), (_note(stage),)))


def _thinks(model: Model, stage: StagePlan) -> bool:
    """Whether the model that the stage begins with thinks, unless the recipe turns that off."""
    decided, template = stage.decisions, model.template
    if decided["template"].value != "model" or stage.stage.starts_from is not None:
        return False
    two_modes = model.kind == "chat" and template is not None and template.empty_thought and not template.quiet
    return model.purpose == _REASONING or (two_modes and decided["reasoning"].value != OFF)


def _place(loaded: LoadedRecipe, stage: StagePlan) -> Place:
    decided = stage.decisions["max_new_tokens"]
    if decided.origin != "recipe":
        return loaded.place("model", "name")
    return loaded.place(*loaded.written_for(stage.stage.name, decided.key))


def _note(stage: StagePlan) -> str:
    variant = stage.decisions.get("variant")
    masked = variant is not None and VARIANTS[variant.value].mask_truncated_completions
    lost = "answers that are cut are masked, and nothing is learned from them" if masked else "cut answers earn little"
    if METHODS[stage.stage.name].has_teacher:
        lost = "of cut answers the thought is learned, and never what follows it"
    return f"answers of a model that thinks take thousands of tokens; {lost}"
