"""The questions of `recipec init`: each with a proposal, its reason, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from recipec.cli import init_proposals as proposals
from recipec.cli.exit_codes import UNUSABLE
from recipec.cli.init_proposals import Given, Proposal
from recipec.cli.output import Failure
from recipec.diagnostics.printable import printable

TASKS = {
    "instruct": "learn to answer from examples",
    "align": "prefer better answers, from pairs",
    "continue-pretrain": "learn a domain from its raw text",
    "pretrain": "learn from raw text alone, from random weights",
}

Answers = dict[str, Proposal]


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that a recipe must say; `refuses` returns what is wrong with an answer, "" when it is good."""

    flag: str
    text: str
    propose: Callable[[Path, Given], Proposal | None]
    refuses: Callable[[str], str]


def _not_a_task(answer: str) -> str:
    return "" if answer in TASKS else f"`{answer}` is not one of {', '.join(TASKS)}"


QUESTIONS = (
    Question("data", "Training data (a file or glob)", proposals.data, proposals.refused_data),
    Question("task", f"Task ({', '.join(TASKS)})", proposals.task, _not_a_task),
    Question("gpu", "GPU", proposals.gpu, proposals.refused_gpu),
    Question("gpus", "How many GPUs", proposals.gpus, proposals.refused_gpus),
    Question("model", "Model to start from", proposals.model, proposals.refused_line),
    Question("name", "Name of the recipe", proposals.name, proposals.refused_name),
)


def missing_flags(given: Given) -> list[str]:
    """The flags that were not given."""
    return [f"--{question.flag}" for question in QUESTIONS if question.flag not in given]


def propose_all(folder: Path, given: Given) -> Answers:
    """The flags that were given, and proposals for the others; ends the command where there is none."""
    answers, missing = {}, []
    for question in QUESTIONS:
        answer = _given(question, given) or question.propose(folder, given)
        if answer is None:
            missing.append(f"--{question.flag}")
        else:
            answers[question.flag] = answer
            given = given | {question.flag: answer.value}
    if missing:
        raise Failure(f"missing {', '.join(missing)}: nothing can be proposed for it", exit_code=UNUSABLE)
    return answers


def ask(folder: Path, given: Given) -> Answers:
    """The flags that were given, and the user's answers to the other questions."""
    answers: Answers = {}
    for question in QUESTIONS:
        answers[question.flag] = _given(question, given) or _prompted(question, question.propose(folder, given))
        given = given | {question.flag: answers[question.flag].value}
    return answers


def _given(question: Question, given: Given) -> Proposal | None:
    if question.flag not in given:
        return None
    if wrong := question.refuses(given[question.flag]):
        raise Failure(f"--{question.flag}: {wrong}", exit_code=UNUSABLE)
    return Proposal(given[question.flag], "")


def _prompted(question: Question, proposal: Proposal | None) -> Proposal:
    """Ask until the answer can be used; the proposal's reason stands above the question."""
    if proposal:
        click.echo(printable(f"{proposal.value}: {proposal.because}"))
    answer = click.prompt(question.text, default=proposal and proposal.value, value_proc=_checked(question))
    return proposal if proposal and answer == proposal.value else Proposal(answer, "")


def _checked(question: Question) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if wrong := question.refuses(answer):
            raise click.UsageError(printable(wrong))
        return answer

    return check
