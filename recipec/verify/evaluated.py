"""What evaluate.py found before and after a run: whether it is there, and whether the trained weights show in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SEEN = 2.0**-15  # AdamW moves no weight by more than its rate a step: less than this may be lost in 16 bits

SEEN_OF_SCALES = 2.0**-9  # half of what separates 1 and the next number in bf16


def evaluation_problems(evaluations: Mapping[str, Mapping[str, Any]], writes: bool) -> list[str]:
    """Evaluations without finite metrics or, of a model that writes, without samples."""
    problems = []
    for when, found in evaluations.items():
        values = list(found.get("metrics", {}).values())
        if not values or not all(math.isfinite(value) for value in values):
            problems.append(f"{when}.json has no finite metrics")
        if writes and not found.get("samples"):
            problems.append(f"{when}.json has no sample answers")
    return problems


def unchanged_problems(evaluations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Whether the model after training scores to the last digit as the one before, as an untrained one does."""
    before, after = (evaluations[when].get("metrics") for when in ("before", "after"))
    if not before or before != after:
        return []
    return [
        "after.json has the very metrics of before.json: evaluate.py loads no trained weights, or train.py saves those "
        "from before its first step"
    ]


def lost_in_rounding(steps: int, rate: float, scales: bool = False) -> str:
    """Why so few steps at such a rate need not change a digit of an evaluation; "" where they must.

    `scales`: what is trained begins at 1, where 16 bits are far coarser than at the size of weights.
    """
    if steps * rate >= (SEEN_OF_SCALES if scales else SEEN):
        return ""
    return f"{steps} steps at {rate:.3g} change no digit in 16 bits; --level learn shows it at a larger rate"
