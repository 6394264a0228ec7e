"""Supervised training with TRL's SFTTrainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, no_files, nothing
from recipec.backends.models import sets_template
from recipec.backends.parts import Import
from recipec.render.call import Arg
from recipec.render.traced import Raw

_LEARNED = {"assistant": "assistant_only_loss", "completion": "completion_only_loss"}  # other loss_on: every token


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("packing", "packing")
    if stage.value("packing"):
        yield stage.arg("packing_strategy", "packing_strategy")
    if stage.value("loss_on") in _LEARNED:
        yield stage.arg(_LEARNED[stage.value("loss_on")], "loss_on", True)
    if sets_template(stage):
        yield Arg("chat_template_path", Raw('str(BUNDLE / "chat_template.jinja")'), stage.ids("template"))


def _measured(stage: StageJob) -> dict[str, Any]:
    """A text may be longer than a block, and is then scored in several windows."""
    return {"in_windows": stage.because(stage.format.splits, "data_format")}


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=True,
    part=nothing,
    files=no_files,
    taught="rows/taught/labels.py.j2",
    token_columns=("input_ids",),
    measure=Measure(
        template="measures/loss.py.j2",
        names=_measured,
        by_row=False,
        metrics=("eval_loss", "perplexity"),
        loss="eval_loss",
        imports=(Import("math"),),
        reads=("encode", "opening"),
    ),
)
