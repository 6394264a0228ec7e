"""How often a run evaluates and saves, in whole steps: as the Trainer, or the bundle, rounds shares of the run."""

from __future__ import annotations

from math import ceil


def times_in(share: float, total_steps: int) -> int:
    """How often something happens that has this share of the steps as its interval: the last step is one of them."""
    return ceil(total_steps / ceil(share * total_steps))


def steps_between(share: float, total_steps: int, updates: int = 1) -> int:
    """The steps from one evaluation to the next: whole generations, each of which teaches `updates` steps."""
    return -(-ceil(share * total_steps) // updates) * updates


def steps_apart(eval_every: float, save_every: float, total_steps: int, updates: int = 1) -> tuple[int, int]:
    """Steps from one evaluation to the next, and from one checkpoint to the next: a whole multiple."""
    each = steps_between(eval_every, total_steps, updates)
    return each, max(1, round(save_every / eval_every)) * each  # less is refused (BAD-017)


def saves_in(eval_every: float, save_every: float, total_steps: int, updates: int = 1) -> int:
    """How often a checkpoint is written: the last step is one of them."""
    return ceil(total_steps / steps_apart(eval_every, save_every, total_steps, updates)[1])
