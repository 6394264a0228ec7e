"""Kahneman-Tversky optimization with TRL's KTOTrainer, which makes the reference and the mismatched rows itself."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure, MethodBackend, no_files, no_names, nothing

BACKEND = MethodBackend(
    trainer=None,
    arguments=StageJob.own_args,
    takes_template=False,
    part=nothing,
    files=no_files,
    taught="rows/taught/unpaired.py.j2",
    token_columns=("prompt_ids", "completion_ids"),
    measure=Measure(
        template="measures/unpaired.py.j2",
        names=no_names,
        by_row=True,
        metrics=("desirable_loss", "undesirable_loss", "label_auc", "gain_auc"),
        loss="desirable_loss",
        gain=Gain(metric="gain_auc", start=0.5, noise="0.1"),
        imports=(),
        reads=("encode", "opening"),
    ),
)
