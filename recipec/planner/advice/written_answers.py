"""What the model's own chat template, or that of a file, does not write of the answers that are learned (E0401)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from recipec.catalog.templates import Template, template_with, templates
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts import Facts
from recipec.facts.conversations import REASONING
from recipec.facts.converting import KEEP, OFF
from recipec.facts.seen_answers import SeenAnswers
from recipec.facts.template import template_of, text_shown
from recipec.planner.advice.limits import no_mode, section_of
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.fields import OWN_TEMPLATES

_APART = "completion"  # of loss_on: a row is a prompt and its answer
_CALLS, _ANSWERS = "calls", "answers"  # values of told_thoughts of a template
_FIELD, _LAST = "reasoning_content", "</think>"  # what a template must have in its text to write a thought


class _Shown(Struct, frozen=True):
    """The chat template of the training: whose it is, and what is known of it."""

    whose: str
    known: Template | None
    text: str | None  # where it is on this machine

    def lacks(self, part: str) -> bool:
        """Whether it writes no thoughts of its own, as a template that lacks the part cannot.

        Of a template without a digest not every text is known.
        """
        if self.known is not None and (self.known.empty_thought or self.known.sha256):
            return not self.known.empty_thought
        return self.text is not None and part not in self.text

    def tells(self, which: str) -> bool:
        """Whether it writes thoughts in a field of their own: _CALLS, beside calls of tools; _ANSWERS, of any."""
        told = self.known.told_thoughts if self.known is not None else ""
        return told in (which, _ANSWERS) or not self.lacks(_FIELD)

    @property
    def keeps_tags(self) -> bool:
        """Whether it is known to write a thought between tags as the text that it is."""
        if self.known is not None:
            return not (self.known.cuts or self.known.drops_thoughts)
        return self.text is not None and _LAST not in self.text


def check_answers(loaded: LoadedRecipe, plan: Plan, facts: Facts, report: Report) -> None:
    """Report a mode without thinking and thoughts that the chat template does not write, each once."""
    shown = _shown(loaded, facts)
    stages = [stage for stage in plan.stages if stage.decisions["template"].value not in (*OWN_TEMPLATES, "none")]
    found = [finding for stage in stages for finding in _unwritten(loaded, facts, shown, stage)]
    for finding in {(finding.title, finding.labels): finding for finding in found}.values():
        report.add(finding)


def _shown(loaded: LoadedRecipe, facts: Facts) -> _Shown:
    own = facts.template_text
    family = template_with(own) if own is not None else None
    known = templates()[family] if family else template_of(loaded, facts.model)
    whose = f"`{loaded.recipe.data.template}`" if own is not None else f"of {facts.model.name}"
    return _Shown(whose, known, text_shown(loaded, facts.model, own))


def _unwritten(loaded: LoadedRecipe, facts: Facts, shown: _Shown, stage: StagePlan) -> Iterator[Diagnostic]:
    thoughts, section = stage.decisions["reasoning"].value, section_of(loaded, stage)
    answers = facts.data[section].seen_answers
    if thoughts == OFF and shown.lacks(_LAST):
        yield no_mode(loaded, shown.whose)
    if thoughts == KEEP and answers.told and not shown.tells(_ANSWERS):
        yield _no_thoughts(loaded, shown, section, f"{answers.told} has a thought in a field of its message")
    elif thoughts == KEEP and answers.called and not shown.tells(_CALLS):
        yield _no_thoughts(loaded, shown, section, f"{answers.called} has a thought in a field beside calls of tools")
    elif thoughts == KEEP and answers.tagged and shown.known and shown.known.drops_thoughts:
        yield _no_thoughts(loaded, shown, section, f"{answers.tagged} has a thought before its answer")
    elif thoughts in ("", KEEP) and REASONING in (loaded.recipe.data.carry or ()) and not shown.tells(_CALLS):
        yield _no_thoughts(loaded, shown, "carry", "rows with thoughts in a field of their messages")
    if answers.follows and shown.known and shown.known.moves_thought and stage.decisions["loss_on"].value == _APART:
        yield _one_behind_another(loaded, shown, section, answers)


def _one_behind_another(loaded: LoadedRecipe, shown: _Shown, section: str, answers: SeenAnswers) -> Diagnostic:
    """Answers that follow each other, of which the template writes the first otherwise once the second is there."""
    label = Label(loaded.place("data", section), f"{answers.follows} has an answer directly behind another one")
    help = (
        answers.joined or "write answers that follow each other as one answer",
        "or remove these rows, or give the first of the answers a thought",
    )
    note = "it writes an empty thought before the last message alone, and prepare_data.py refuses such rows"
    title = f"the chat template {shown.whose} does not write one answer behind another"
    return Diagnostic("E0401", title, (label,), help, (note,))


def _no_thoughts(loaded: LoadedRecipe, shown: _Shown, section: str, seen: str) -> Diagnostic:
    written = "to train with them: write each into the text of its answer, between <think> and </think>"
    help = (
        'to train without thoughts: `reasoning = "strip"` under [data]',
        *[written] * shown.keeps_tags,
        'or name a file with a template that writes them: `template = "./your.jinja"` under [data]',
    )
    title = f"the chat template {shown.whose} does not write such thoughts"
    return Diagnostic("E0401", title, (Label(loaded.place("data", section), seen),), help)
