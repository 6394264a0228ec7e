"""Odds ratio preference optimization: DPOTrainer with another loss, in a file of the bundle.

Why not TRL's own: ORPOTrainer is experimental. It holds the logits of both answers at every position, in fp32 under
autocast; it logs no count of tokens and keeps no lengths of rows; it loads a model with device_map="auto", which
distributed runs refuse; it reads no router_aux_loss_coef; a prompt that fills max_length makes its loss NaN; and it
learns the prompts too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer, nothing
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    for own in stage.method.own:
        yield stage.arg(own.argument, own.name)
    if stage.adapts.trains_all:
        yield Arg("precompute_ref_log_probs", True, stage.ids("adaptation"), "keeps no reference; there is none")


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    return {
        "precomputes": stage.because(stage.adapts.trains_all, "adaptation"),
        "experts": stage.because(stage.routes, "model"),
    }


def _measured(stage: StageJob) -> Mapping[str, Any]:
    """What evaluate.py's measure reads: the odds are those of mean log-probabilities."""
    return {"per_token": True}


BACKEND = MethodBackend(
    trainer=OwnTrainer(module="odds_ratio", template="trl/odds_ratio.py.j2", names=_names, name="OddsRatioTrainer"),
    arguments=_arguments,
    takes_template=False,
    part=nothing,
    taught="rows/taught/pairs.py.j2",
    measure=Measure(
        template="measures/likelier.py.j2",
        names=_measured,
        by_row=False,
        metrics=("preference_accuracy", "chosen_loss"),
        imports=(),
        reads=("encode", "opening"),
    ),
)
