"""Mixtures of experts: what training adds to the loss for their balance is left out of what is compared."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines

_PLAIN = "evaluate_without_router_loss"  # of preflight.py


def compares_losses(stage: StageJob) -> bool:
    """Whether checkpoints are judged by a loss that the balance of the experts is added to in training."""
    return stage.routes and not stage.method.generates


def router_part(stage: StageJob) -> Part:
    """What keeps the balance of the experts out of evaluations."""
    if not compares_losses(stage):
        return Part()
    ids = stage.ids("model", "stage")
    return Part(own_imports=(Import("preflight", _PLAIN, ids),), after_trainer=lines(ids, f"{_PLAIN}(trainer)"))
