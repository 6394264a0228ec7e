"""Whether numbers show that something was learned, kept and continued."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LEARNED_SHARE = 0.5  # of its first value: what is left of the loss when one batch's rows are learned
LOGIT_TOLERANCE = 0.02  # of the largest logit: the rounding of bf16 through a few layers
WEIGHT_TOLERANCE = 1e-4  # absolute, where several processes sum in changing order

History = list[dict[str, Any]]


def falling_problems(history: History) -> list[str]:
    """Losses that did not fall below LEARNED_SHARE of the first."""
    losses = [entry["loss"] for entry in history if "loss" in entry]
    if len(losses) < 2:
        return ["fewer than two losses were logged"]
    if not losses[-1] <= LEARNED_SHARE * losses[0]:  # also where it is not a number
        return [f"loss fell from {losses[0]:.4f} to {losses[-1]:.4f} only, not below {LEARNED_SHARE:.0%} of it"]
    return []


def margin_problems(history: History) -> list[str]:
    """Margins between chosen and rejected answers that did not rise above zero."""
    margins = [entry["rewards/margins"] for entry in history if "rewards/margins" in entry]
    if not margins[-1] > max(0.0, margins[0]):
        return [f"the margin went from {margins[0]:.4f} to {margins[-1]:.4f}"]
    return []


def logit_problems(trained: Sequence[float], reloaded: Sequence[float]) -> tuple[list[str], str]:
    """Problems, and what was seen, of two sets of logits for the same tokens."""
    if len(trained) != len(reloaded):
        return [f"{len(trained)} logits after training, {len(reloaded)} after reloading"], ""
    if not all(map(math.isfinite, [*trained, *reloaded])):
        return ["not all logits are finite"], ""
    largest = max(abs(value) for value in trained)
    apart = max(abs(one - other) for one, other in zip(trained, reloaded, strict=True))
    seen = f"at most {apart:.2g} apart, the largest is {largest:.2g}"
    return ([] if apart <= LOGIT_TOLERANCE * largest else [seen]), seen


def weight_problems(whole: Mapping[str, Any], resumed: Mapping[str, Any], exact: bool) -> list[str]:
    """Tensors that differ between an uninterrupted and a resumed training."""
    if whole.keys() != resumed.keys():
        return [f"different tensors: {', '.join(sorted(whole.keys() ^ resumed.keys()))}"]
    apart = {name: (whole[name].float() - resumed[name].float()).abs().max().item() for name in whole}
    limit = 0.0 if exact else WEIGHT_TOLERANCE
    wrong = {name: distance for name, distance in apart.items() if not distance <= limit}
    if not wrong:
        return []
    worst = max(wrong, key=lambda name: wrong[name])
    return [f"{len(wrong)} of {len(apart)} tensors differ, {worst} by {wrong[worst]:.2g}"]
