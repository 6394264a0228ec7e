"""Kahneman-Tversky optimization with TRL's KTOTrainer, which makes the reference and the mismatched rows itself."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, no_names, nothing
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    for own in stage.method.own:
        yield stage.arg(own.argument, own.name, note=bool(own.formula))


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=False,
    part=nothing,
    taught="rows/taught/unpaired.py.j2",
    measure=Measure(
        template="measures/unpaired.py.j2",
        names=no_names,
        by_row=False,
        metrics=("desirable_loss", "undesirable_loss", "label_auc"),
        imports=(),
        reads=("encode", "opening"),
    ),
)
