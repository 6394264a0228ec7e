"""Contrastive preference optimization: DPOTrainer with another loss, in a file of the bundle.

Why not TRL's own: CPOTrainer is experimental. It holds the logits of both answers at every position; it logs no count
of tokens and keeps no lengths of rows; it loads a model with device_map="auto", which distributed runs refuse; and it
reads no router_aux_loss_coef from its configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer
from recipec.backends.parts import Part
from recipec.render.call import Arg
from recipec.rules.preference import PER_TOKEN

_OF_TRAINER = ("gamma", "nll_weight")  # what DPOConfig does not know


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("beta", stage.own("beta"))
    if stage.adapts.trains_all:
        yield Arg("precompute_ref_log_probs", True, stage.ids("adaptation"), "keeps no reference; there is none")


def _part(stage: StageJob) -> Part:
    return Part(arguments=tuple(stage.arg(name, stage.own(name)) for name in _OF_TRAINER))


def _of_loss(stage: StageJob) -> Mapping[str, Any]:
    """Whether an answer counts by the mean over its tokens, or by their sum."""
    named = stage.own("loss_type")
    return {"per_token": stage.traced(named, stage.value(named) == PER_TOKEN)}


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of its loss and of the sides of its stage."""
    return {
        **_of_loss(stage),
        "precomputes": stage.because(stage.adapts.trains_all, "adaptation"),
        "experts": stage.because(stage.routes, "model"),
    }


BACKEND = MethodBackend(
    trainer=OwnTrainer(module="contrastive", template="trl/contrastive.py.j2", names=_names, name="ContrastiveTrainer"),
    arguments=_arguments,
    takes_template=False,
    part=_part,
    taught="rows/taught/pairs.py.j2",
    measure=Measure(
        template="measures/likelier.py.j2",
        names=_of_loss,
        by_row=False,
        metrics=("preference_accuracy", "chosen_loss"),
        imports=(),
        reads=("encode", "opening"),
    ),
)
