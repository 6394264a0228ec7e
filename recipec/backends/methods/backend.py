"""What the file of a training method says of its code; everything else about a method is in its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part
from recipec.render.artifact import Artifact
from recipec.render.call import Arg


class Gain(Struct, frozen=True, kw_only=True):
    """What training gains, where a loss does not show it: a metric that a merge must not throw back."""

    metric: str  # of what measure() returns
    falls: bool = False  # whether less is better
    start: float | None = None  # its value where nothing is learned; None: that of the model before training
    noise: str  # what chance may change of it, as code


class Measure(Struct, frozen=True, kw_only=True):
    """How evaluate.py judges a model by the held-out rows."""

    template: str  # defines measure(model, tokenizer, rows) and show(model, tokenizer, rows)
    answers_all: bool = False  # measure() also returns the answers that it writes, and show(tokenizer, rows, answers)
    names: Callable[[StageJob], Mapping[str, Any]]  # what the template reads
    errors: bool = False  # measure() also returns standard errors, as the name of a metric with _error behind it
    by_row: bool  # defines judge(model, tokenizer, rows) and measure(answers, start), which also knows the start's
    metrics: tuple[str, ...]  # the names of what measure() returns
    loss: str  # of them the one, in nats, that a merge must not raise
    gain: Gain | None = None  # what it must not lose beside; None where `loss` is what training lowers
    imports: tuple[Import, ...]
    reads: tuple[str, ...]  # functions of rows.py
    same: str = "the same rows, the same loss, the same questions"  # what is compared: evaluate.py begins with it
    unit: str = "Losses are means over all learned tokens, in nats."  # what the figures are; "": each says so itself


class OwnTrainer(Struct, frozen=True, kw_only=True):
    """A trainer that a bundle brings itself, built on that of its row: a file beside train.py.

    preflight.py asks it for what TRL's trainers have: `num_tokens` in the logs, a `length` column of the training rows,
    `_metrics`, `processing_class`, and the columns that the method's `taught` template reads.
    """

    module: str  # the file without its ending
    template: str
    names: Callable[[StageJob], Mapping[str, Any]]  # what the template reads
    name: str  # of the class
    config: str = ""  # its configuration class, where the file has that, too; "": the row's, of the row's library
    library_order: bool = False  # it takes prompts in the order of TRL's sampler, which no checkpoint has the state of


class MethodBackend(Struct, frozen=True, kw_only=True):
    """One training method in emitted code."""

    trainer: OwnTrainer | None  # in place of the library's; None: the library's
    arguments: Callable[[StageJob], Iterator[Arg]]  # of its configuration class, which no other method has
    takes_template: bool  # its configuration class reads a chat template from a file
    part: Callable[[StageJob], Part]  # what only it brings to train.py
    files: Callable[[StageJob], list[Artifact]]  # that only it brings beside train.py
    played: Callable[[StageJob], Measure] | None = None  # in place of `measure` where the model acts with tools
    taught: str  # the template for rows.py of what a row of its trainer teaches
    token_columns: tuple[str, ...]  # of those rows; none where they are prompts, which are not tokens yet
    measure: Measure

    @property
    def library_order(self) -> bool:
        """Whether rows come in the order of the library's sampler."""
        return self.trainer is None or self.trainer.library_order

    def measure_of(self, stage: StageJob) -> Measure:
        """How evaluate.py judges the models of a stage."""
        return self.played(stage) if stage.acts and self.played else self.measure


def nothing(stage: StageJob) -> Part:
    """The part of a method that needs nothing but its trainer."""
    return Part()


def no_files(stage: StageJob) -> list[Artifact]:
    """Of a method that brings no files."""
    return []


def no_names(stage: StageJob) -> Mapping[str, Any]:
    """What a template reads that is the same for every stage."""
    return {}
