"""What shows that a method learns: by name, what a check of a training looks at."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.models import REFERENCE, TEACHER


class ProofNeeds(Struct, frozen=True, kw_only=True):
    """What a proof looks at."""

    metrics: tuple[str, ...]  # that the method logs; the loss is logged by every method
    compares_with: str  # the model of a pass that the loss compares with; "" where any loss will do


# Each a function in recipec/verify/learn_checks.py.
PROOFS = {
    "loss_halves": ProofNeeds(metrics=(), compares_with=""),
    "margins_rise": ProofNeeds(metrics=("rewards/margins",), compares_with=""),
    "starts_as_reference": ProofNeeds(metrics=("rewards/chosen",), compares_with=REFERENCE),
    "rewards_separate": ProofNeeds(metrics=("rewards/chosen", "rewards/rejected"), compares_with=""),
    "accuracy_rises": ProofNeeds(metrics=("accuracy",), compares_with=""),
    "reward_rises": ProofNeeds(metrics=("reward", "reward_std"), compares_with=""),
    "divergence_falls": ProofNeeds(metrics=(), compares_with=TEACHER),
}
