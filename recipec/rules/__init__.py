"""The rule book: one decision, one small pure function. Importing this package fills `core.RULES`."""

from __future__ import annotations

from recipec.rules import (
    adaptation,
    batch,
    checkpoints,
    data,
    dispatch,
    evaluation,
    forgetting,
    goal,
    kernels,
    loader,
    lora,
    memory,
    model,
    optimizer,
    precision,
    preference,
    schedule,
    strategy,
    tracking,
)
from recipec.rules.core import RULES

__all__ = [
    "RULES",
    "adaptation",
    "batch",
    "checkpoints",
    "data",
    "dispatch",
    "evaluation",
    "forgetting",
    "goal",
    "kernels",
    "loader",
    "lora",
    "memory",
    "model",
    "optimizer",
    "precision",
    "preference",
    "schedule",
    "strategy",
    "tracking",
]
