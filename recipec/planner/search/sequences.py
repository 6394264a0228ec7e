"""What a settled stage learns from: its method as its own hyperparameters have it, and the sequences of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1
from typing import Any

from recipec.axes import METHODS, Method
from recipec.rules import evaluation
from recipec.rules.core import Decision
from recipec.rules.intervals import answers_in

STEP_INPUTS = (
    *("examples", "source_rows", "epochs", "max_steps", "eval_fraction", "test_fraction"),
    *("global_batch_size", "gradient_accumulation", "tokens_per_example", "max_length", "packing", "tokens_p99"),
    *("per_prompt", "updates", "answer_passes", "replay_rows", "training_tokens"),
)


def settled_method(decisions: Mapping[str, Decision]) -> Method:
    """The row of a settled stage, as its own hyperparameters have it."""
    return METHODS[decisions["stage"].value].under({id: decision.value for id, decision in decisions.items()})


def training_sequences(value: Mapping[str, Any]) -> float:
    """What the steps of an epoch go through: training rows, the pieces, blocks or answers that are made of them."""
    rows = evaluation.training_rows(value)
    if METHODS[value["stage"]].generates:
        return answers_in(rows, value)
    if value["packing"]:
        return rows * evaluation.training_tokens(value) / value["max_length"]
    return rows * _pieces(value) if value["overflow"] == "split" else rows


def _pieces(value: Mapping[str, Any]) -> float:
    """Into how many pieces a text is cut on average: every last one is shorter than max_length.

    The mean of ceil(length / max_length) where lengths are spread exponentially; where all texts have one length above
    max_length, it is 27% too high or 21% too low at most.
    """
    longest, most = value.get("tokens_p99"), value["max_length"]
    if longest is not None and longest <= most:
        return 1.0
    return 1 / -expm1(-most / evaluation.training_tokens(value))


def step_inputs(given: Mapping[str, Decision]) -> tuple[str, ...]:
    """Those that are decided of what the number of steps depends on."""
    return tuple(id for id in STEP_INPUTS if id in given)
