"""Direct preference optimization with TRL's DPOTrainer, which makes the reference itself."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.methods.dpo import WRONG_LABELS
from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure, MethodBackend, no_files, no_names, nothing
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    named = stage.own("loss_type")
    loss = stage.value(named)
    for own in stage.method.own:
        yield stage.arg(own.argument, own.name, [loss] if own.name == named else None)
    if loss in WRONG_LABELS:
        yield stage.arg("label_smoothing", named, WRONG_LABELS[loss])


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=False,
    part=nothing,
    files=no_files,
    taught="rows/taught/pairs.py.j2",
    token_columns=("prompt_ids", "chosen_ids", "rejected_ids"),
    measure=Measure(
        template="measures/preference.py.j2",
        names=no_names,
        by_row=True,
        metrics=("preference_accuracy", "chosen_loss", "reward_accuracy", "reward_margin"),
        loss="chosen_loss",
        gain=Gain(metric="reward_margin", start=0.0, noise="0.1"),
        imports=(),
        reads=("encode", "opening"),
    ),
)
