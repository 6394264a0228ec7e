"""What a settled stage learns from: its method as its own hyperparameters have it, and the sequences of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.axes import METHODS, Method
from recipec.rules import evaluation
from recipec.rules.core import Decision

STEP_INPUTS = (
    *("examples", "epochs", "max_steps", "eval_fraction", "test_fraction"),
    *("global_batch_size", "gradient_accumulation", "tokens_per_example", "max_length", "packing"),
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
    blocks = rows * evaluation.training_tokens(value) / value["max_length"]
    if value["packing"]:
        return blocks
    return max(rows, blocks) if value["overflow"] == "split" else rows


def answers_in(prompts: int, value: Mapping[str, Any]) -> int:
    """The answers of whole generations, as often as they are learned from: prompts that fill none are left out."""
    each = value["global_batch_size"] * value.get("updates", 1)
    return max(1, prompts * value.get("per_prompt", 1) // each) * each * value.get("answer_passes", 1)


def step_inputs(given: Mapping[str, Decision]) -> tuple[str, ...]:
    """Those that are decided of what the number of steps depends on."""
    return tuple(id for id in STEP_INPUTS if id in given)
