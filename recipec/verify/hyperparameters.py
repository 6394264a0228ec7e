"""How long, and with what values, a bundle trains while it is verified."""

from __future__ import annotations

from typing import Any

RUN_STEPS = 6
LEARN_STEPS = 24
CHECKPOINT = 12  # at the learn level; two evaluations are too few for early stopping
DEATH = 16  # the step at which the process is killed: after CHECKPOINT, before the end
_LEARNING_RATES = {"full": 5e-3, "lora": 2e-2, "random": 2e-2}  # for 100,000 random weights: above any real model's
_FACTORS = {"lion": 0.3, "lion-8bit": 0.3, "sgd": 100.0}  # beside AdamW


def learning_values(start: str, optimizer: str) -> dict[str, Any]:
    """Trainer arguments of the learn level, in place of the plan's.

    `start` is the adaptation, or "random": weights of the usual spread, smaller than a stand-in's, learn slower.
    """
    return {
        "learning_rate": _LEARNING_RATES[start] * _FACTORS.get(optimizer, 1.0),
        "warmup_steps": 0,
        "eval_steps": CHECKPOINT,
        "save_steps": CHECKPOINT,
    }
