"""What a model that can think learns of thinking, from answers that have no thoughts (W0522)."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.axes import KINDS, METHODS
from recipec.catalog.templates import Template
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts import Facts
from recipec.facts.converting import OFF, STRIP
from recipec.planner.advice.limits import section_of
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

_OF_ANSWERS = ("assistant", "completion")  # values of loss_on
_ALLOW = 'if the model is never to think again, write allow = ["W0522"] under [recipe]'
_SOME_ALLOW = 'if the model is to decide by the question whether it thinks, write allow = ["W0522"] under [recipe]'
_BEGUN_ALLOW = (
    "its prompts begin with a thought, so that answers without one are learned for prompts with enable_thinking=False "
    'alone: if that is wanted, write allow = ["W0522"] under [recipe]'
)
_EARLIER = (
    "TRL's training version writes it before earlier answers of a conversation too, where the model does not see it "
    "in use"
)
_GIVEN = "the empty thought is given, not learned, and the model keeps its two modes"


def empty_thoughts(loaded: LoadedRecipe, facts: Facts, stage: StagePlan, report: Report) -> None:
    """Report answers without thoughts, before each of which the chat template writes an empty thought (W0522)."""
    model, section = facts.model, section_of(loaded, stage)
    template, renamed = model.template, facts.data[section].seen_answers.renamed if section in facts.data else ""
    if template is None or not template.empty_thought or not _learns_them(stage):
        return
    decided, silent = stage.decisions, stage.decisions["without_thoughts"]
    none_thinks = decided["reasoning"].value in ("", STRIP)
    if (none_thinks or silent.value == 1) and model.kind == "base":
        return  # it has no mode of thinking to lose
    if none_thinks or silent.value == 1:
        because = decided["reasoning"].because if none_thinks else silent.because
        because += " between <think> and </think>" * bool(renamed)
        title = f"{model.name} learns not to think"
        off = f'reasoning = "off" under [data]: {_GIVEN}'
        help = (renamed,) if renamed else (off,) * (not template.unended) + (_ALLOW,)
    elif silent.value:
        because, title = silent.because, f"{model.name} learns to think before some answers, and not before others"
        allow = _BEGUN_ALLOW if template.begins_thought else _SOME_ALLOW
        help = "give every answer a thought, or train those without one in a recipe of their own", allow
    else:
        return
    label = Label(loaded.place("data", section), because)
    report.add(Diagnostic("W0522", title, (label,), help, (_note(decided, template),)))


def _learns_them(stage: StagePlan) -> bool:
    """Whether what an answer begins with is learned: what both answers of a pair begin with tells neither apart.

    A labeled answer is compared with no other: the thought counts as the rest of the answer does.
    """
    decided, kinds = stage.decisions, [KINDS[name] for name in METHODS[stage.stage.name].kinds]
    if decided["template"].value != "model" or decided["loss_on"].value not in _OF_ANSWERS:
        return False
    return decided["reasoning"].value != OFF and not any(len(kind.taught) != 1 for kind in kinds)


def _note(decided: Mapping[str, Decision], template: Template) -> str:
    said = "the chat template writes an empty thought before an answer that has none, and the model learns to write it"
    if template.keeps_thoughts and decided["loss_on"].value == "assistant":
        return f"{said}; {_EARLIER}"
    return said
