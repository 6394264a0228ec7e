"""Answers that a thinking model writes while it learns, and that end inside its thought (W0525)."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.axes import METHODS
from recipec.axes.variants import VARIANTS
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.converting import OFF
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe

LEAST_TOKENS = 4096  # recipec's choice: thoughts of published models take thousands of tokens
_ENOUGH = f"`alignment.generation.max_new_tokens = {LEAST_TOKENS}` or more; longer answers need more memory and time"
_REASONING = "reasoning"  # the purpose of models that have no other mode


def cut_thoughts(
    loaded: LoadedRecipe, model: Model, others: Mapping[str, Model], stage: StagePlan, report: Report
) -> None:
    """Report too few tokens for answers of, or like those of, a model that thinks before it answers (W0525)."""
    method = METHODS[stage.stage.name]
    if not method.generates or stage.decisions["max_new_tokens"].value >= LEAST_TOKENS:
        return
    if _thinks(model, stage):
        report.add(_cut(loaded, model, stage))
        return
    teachers = [others[role] for role in method.needs_vocabulary_of if role in others]
    for teacher in (teacher for teacher in teachers if _in_thoughts(teacher, stage)):
        report.add(_taught(loaded, teacher, stage))


def _cut(loaded: LoadedRecipe, model: Model, stage: StagePlan) -> Diagnostic:
    most = stage.decisions["max_new_tokens"].value
    label = Label(_place(loaded, stage), f"an answer has at most {most:,} tokens")
    help = [f"set {_ENOUGH}"]
    if model.purpose != _REASONING:
        help.append('or set `reasoning = "off"` under [data]: prompts then end with an empty thought')
    title = f"{model.name} thinks before it answers, and its answers may be cut inside the thought"
    return Diagnostic("W0525", title, (label,), tuple(help), (_note(stage),))


def _taught(loaded: LoadedRecipe, teacher: Model, stage: StagePlan) -> Diagnostic:
    """Of a student that does not think by itself."""
    most = stage.decisions["max_new_tokens"].value
    label = Label(_place(loaded, stage), f"an answer has at most {most:,} tokens")
    help = (
        "take a teacher that answers without a thought",
        f"or set {_ENOUGH}",
    )
    title = (
        f"the teacher {teacher.name} thinks before it answers, and the student's answers may be cut inside a thought"
    )
    return Diagnostic("W0525", title, (label,), help, (_note(stage),))


def _thinks(model: Model, stage: StagePlan) -> bool:
    """Whether the model that the stage begins with thinks, unless the recipe turns that off."""
    own = stage.decisions["template"].value == "model" and stage.stage.starts_from is None
    return own and _in_thoughts(model, stage)


def _in_thoughts(model: Model, stage: StagePlan) -> bool:
    """Whether a model begins its answers with a thought where no recipe says otherwise."""
    decided, template = stage.decisions, model.template
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
