"""On-policy distillation: TRL's DistillationTrainer, with its teacher and its autocast mended in a file of the bundle.

Why not as it is (TRL 1.16): its loss is computed around accelerate's forward, so that fp32 weights under bf16 train
without autocast, in fp32; and it refuses a teacher whose matrix of the vocabulary has a few more rows of padding, as
Qwen2.5-7B's beside Qwen2.5-3B's. Why not GKDTrainer: see distill.py; and it divides the loss of answers that the
student has written by the number of tokens in the answers of the rows, whose place they took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure, MethodBackend, OwnTrainer, no_files
from recipec.backends.methods.online import drawing_arguments
from recipec.backends.methods.taught import CHECK, measured, sides, teacher_part
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("beta", "divergence_beta", note=True)
    yield from drawing_arguments(stage)


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage: sharded weights are in the type that is computed in."""
    shards, keeps = stage.strategy.shards_weights, stage.strategy.keeps_master
    casts = stage.value("precision") != "fp32" and not shards and not keeps
    return {**sides(stage), "casts": stage.because(casts, "precision", "strategy")}


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What evaluate.py's measure reads."""
    merges = stage.because(stage.adapts.merges, "adaptation")
    return {**measured(stage), "squared": stage.because(False, "stage"), "merges": merges}


BACKEND = MethodBackend(
    trainer=OwnTrainer(
        module="on_policy",
        template="trl/on_policy.py.j2",
        names=_sides,
        name="OnPolicyDistillationTrainer",
        library_order=True,
    ),
    arguments=_arguments,
    takes_template=False,
    part=teacher_part,
    files=no_files,
    taught="rows/taught/asked_of_teacher.py.j2",
    token_columns=(),
    measure=Measure(
        template="measures/on_policy.py.j2",
        answers_all=True,
        names=_names,
        by_row=False,
        metrics=("divergence", "prompt_loss", "mean_length", "cut_share"),
        loss="prompt_loss",
        gain=Gain(metric="divergence", falls=True, noise="0.05"),
        imports=(),
        reads=(CHECK, "encode", "opening"),
        same="the teacher's view of answers to the same prompts",
        unit="Divergences are means over the tokens of one greedy answer to each prompt, in nats.",
    ),
)
