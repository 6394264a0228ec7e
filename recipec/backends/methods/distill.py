"""Supervised distillation: SFTTrainer with a teacher, in a file of the bundle.

Why not TRL's own: DistillationTrainer is on-policy only. GKDTrainer, with lmbda = 0, is experimental; it takes raw
`messages` and learns the last answer alone, so that rows, masks and packing are not those of supervised fine-tuning; it
leaves `temperature` out of its loss; and it holds the logits of both models at every position, prompts included, with
their log-softmaxes in fp32. ChunkedDivergenceFunction, which DistillationTrainer computes its loss with, makes them by
tiles. A step of Qwen3-1.7B under Qwen3-8B on 4 x 2,048 tokens has its peak at 46 GiB so, and at 71 GiB with GKDTrainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods import sft
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer, no_files
from recipec.backends.methods.taught import CHECK, measured, sides, teacher_part
from recipec.backends.parts import Import


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    return {
        "adapter": stage.because(not stage.adapts.trains_all, "adaptation"),
        "dtensors": stage.because(stage.engine.dtensors, "strategy"),
        **sides(stage),
    }


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What evaluate.py's measure reads."""
    return {**measured(stage), "squared": stage.because(True, "stage")}


BACKEND = MethodBackend(
    trainer=OwnTrainer(
        module="distillation",
        template="trl/distillation.py.j2",
        names=_sides,
        name="SupervisedDistillationTrainer",
    ),
    arguments=sft.BACKEND.arguments,
    takes_template=True,
    part=teacher_part,
    files=no_files,
    taught="rows/taught/distilled.py.j2",
    token_columns=("input_ids",),
    measure=Measure(
        template="measures/teacher.py.j2",
        names=_names,
        by_row=False,
        metrics=("divergence", "answer_loss", "perplexity"),
        loss="answer_loss",
        imports=(Import("math"),),
        reads=(CHECK, "encode", "opening"),
    ),
)
