"""Whether numbers show that something was learned, kept and continued.

A method's row names the checks that prove it, `Method.proof`: each is a function here with a line in PROOFS.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from msgspec import Struct

from recipec.axes import Method

NEARER_SHARE = 0.75  # of its first value: what is left of the distance to a teacher with random weights
ACCURATE_SHARE = 0.9  # of the pairs of one batch whose chosen answer a reward model scores higher when it knows them
EARNED = 0.4  # of the spread of the first rewards, by which the mean of a toy rises: three times what chance moves
STEPS_COMPARED = 4  # at the beginning and at the end of a rise, each a mean over some 250 tokens
LOGIT_TOLERANCE = 0.02  # of the mean size, for the mean: the rounding of bf16 through a few layers
ONE_LOGIT = 0.05  # of the largest, for any one: with DoRA, whose sizes FSDP gathers in bf16, one was 0.022 apart
REWARD_TOLERANCE = 0.01  # of a policy that has not been trained: the rounding of bf16 in two forwards
WEIGHT_TOLERANCE = 1e-4  # absolute, where several processes sum in changing order

_REWARDS = ("rewards/chosen", "rewards/rejected", "rewards/margins")

History = list[dict[str, Any]]


class UnknownProof(Exception):
    """A method's row names a check that does not exist."""


class Proof(Struct, frozen=True):
    """A check of a trainer's log."""

    title: str  # what holds when it passes
    metric: str  # whose first and last value are shown
    problems: Callable[..., list[str]]  # of a history
    takes_share: bool = False  # and of what the adaptation leaves of a loss

    def found(self, history: History, share: float) -> list[str]:
        """The problems of a history, where `share` of the first loss may be left."""
        return self.problems(history, share) if self.takes_share else self.problems(history)


def proofs_of(method: Method) -> tuple[Proof, ...]:
    """The checks that the method's row names; raises UnknownProof, also where it names none."""
    unknown = [name for name in method.proof if name not in PROOFS]
    if unknown or not method.proof:
        named = ", ".join(unknown) or "no check"
        raise UnknownProof(f"the row of {method.name} names {named} as its proof; known are {', '.join(PROOFS)}")
    return tuple(PROOFS[name] for name in method.proof)


def logged(history: History, metric: str) -> list[float]:
    """The values of a metric in the order in which they were logged."""
    return [entry[metric] for entry in history if metric in entry]


def story(history: History, metric: str = "loss") -> str:
    """First and last value of a metric."""
    values = logged(history, metric)
    return f"{metric} {values[0]:.4f} to {values[-1]:.4f} in {len(values)} logs" if values else ""


def loss_halves(history: History, share: float) -> list[str]:
    """A loss that did not fall to a share of its first value: a half, for what can learn a batch by heart."""
    return _falling_problems(logged(history, "loss"), share)


def divergence_falls(history: History) -> list[str]:
    """A distance to the teacher, which is the loss of distillation, that is none or did not fall."""
    values = logged(history, "loss")
    if values and (values[0] == 0 or min(values) < 0):
        return [f"a divergence is positive, and the loss went from {values[0]:.4f} to {values[-1]:.4f}"]
    return _falling_problems(values, NEARER_SHARE)


def margins_rise(history: History) -> list[str]:
    """Margins between chosen and rejected answers that did not rise above zero."""
    return _rising_problems(logged(history, "rewards/margins"), "the margin")


def starts_as_reference(history: History) -> list[str]:
    """Rewards that are not zero at first: a policy that is not what it is compared with."""
    rewards = [{name: entry[name] for name in _REWARDS if name in entry} for entry in history]
    first = next(filter(None, rewards), None)
    if first is None:
        return ["no reward was logged"]
    return [f"{name} begins at {value:.4f}" for name, value in first.items() if not abs(value) <= REWARD_TOLERANCE]


def rewards_separate(history: History) -> list[str]:
    """Rewards of liked answers that did not rise above those of disliked ones; a batch may hold one kind alone."""
    both = [entry for entry in history if {"rewards/chosen", "rewards/rejected"} <= entry.keys()]
    apart = [entry["rewards/chosen"] - entry["rewards/rejected"] for entry in both]
    return _rising_problems(apart, "chosen above rejected rewards")


def accuracy_rises(history: History) -> list[str]:
    """A share of pairs in the right order that did not rise to ACCURATE_SHARE."""
    values = logged(history, "accuracy")
    if len(values) < 2:
        return ["accuracy was logged fewer than two times"]
    enough = values[-1] >= max(ACCURATE_SHARE, values[0])
    return [] if enough else [f"accuracy went from {values[0]:.2f} to {values[-1]:.2f}, not to {ACCURATE_SHARE:.0%}"]


def reward_rises(history: History) -> list[str]:
    """A mean reward that did not rise by EARNED of its first spread from the first steps to the last."""
    values = logged(history, "reward")
    if len(values) < 2 * STEPS_COMPARED:
        return [f"reward was logged {len(values)} times only"]
    begun, ended = (sum(part) / STEPS_COMPARED for part in (values[:STEPS_COMPARED], values[-STEPS_COMPARED:]))
    rise = EARNED * sum(logged(history, "reward_std")[:STEPS_COMPARED]) / STEPS_COMPARED
    return [] if ended >= begun + rise else [f"reward went from {begun:.3f} to {ended:.3f}, not up by {rise:.2f}"]


def _falling_problems(values: Sequence[float], share: float) -> list[str]:
    """Why losses did not fall below a share of the first one."""
    if len(values) < 2:
        return ["fewer than two losses were logged"]
    if not values[-1] <= share * values[0]:  # also where it is not a number
        return [f"loss fell from {values[0]:.4f} to {values[-1]:.4f} only, not below {share:.0%} of it"]
    return []


def _rising_problems(values: Sequence[float], what: str) -> list[str]:
    """Why values did not rise above zero."""
    if len(values) < 2:
        return [f"{what}: logged fewer than two times"]
    return [] if values[-1] > max(0.0, values[0]) else [f"{what} went from {values[0]:.4f} to {values[-1]:.4f}"]


PROOFS = {
    proof.problems.__name__: proof
    for proof in (
        Proof("the rows of one batch are learned", "loss", loss_halves, takes_share=True),
        Proof("preference margins rise", "rewards/margins", margins_rise),
        Proof("the policy begins as its reference", "rewards/chosen", starts_as_reference),
        Proof("rewards of liked and disliked answers separate", "rewards/chosen", rewards_separate),
        Proof("the pairs of one batch are told apart", "accuracy", accuracy_rises),
        Proof("the distance to the teacher falls", "loss", divergence_falls),
        Proof("answers earn more reward", "reward", reward_rises),
    )
}


def logit_problems(
    trained: Sequence[float], reloaded: Sequence[float], *, scores: bool = False
) -> tuple[list[str], str]:
    """Problems, and what was seen, of two sets of logits for the same tokens, or of a few scores.

    Rounding moves all a little, which the mean shows; one wrong logit of hundreds is a lost row of the head. A score is
    a sum of terms that cancel, so that rounding alone may move one of a few by more: of scores only the mean counts.
    """
    if len(trained) != len(reloaded):
        return [f"{len(trained)} logits after training, {len(reloaded)} after reloading"], ""
    if not all(map(math.isfinite, [*trained, *reloaded])):
        return ["not all logits are finite"], ""
    moved = [abs(one - other) for one, other in zip(trained, reloaded, strict=True)]
    sizes = [abs(value) for value in trained]
    how = f"{fmean(moved):.2g} apart in the mean, of {fmean(sizes):.2g}, at most {max(moved):.2g}, of {max(sizes):.2g}"
    close = fmean(moved) <= LOGIT_TOLERANCE * fmean(sizes) and (scores or max(moved) <= ONE_LOGIT * max(sizes))
    return ([] if close else [how]), how


def epoch_problems(rows: Mapping[int, Sequence[str]], expected: int, steps: int) -> tuple[list[str], str]:
    """Epochs of so many steps that leave some of the expected rows out; and what was seen of them.

    A pair of answers is two rows here: beside the number that is expected, an epoch has what any other one has.
    """
    epochs = [{row for step in range(first, first + steps) for row in rows.get(step, ())} for first in rows][::steps]
    seen, wanted = [len(epoch) for epoch in epochs], max(expected, len(set().union(*epochs)))
    wrong = [f"epoch {number} has {found} different rows of {wanted}" for number, found in enumerate(seen, 1)]
    problems = [said for said, found in zip(wrong, seen, strict=True) if found < wanted]
    return problems, f"{len(seen)} epochs of {steps} steps have {min(seen, default=0)} different rows or more"


def row_problems(whole: Mapping[int, Sequence[str]], resumed: Mapping[int, Sequence[str]], first: int) -> list[str]:
    """Steps from `first` on in which a resumed training saw other rows than an uninterrupted one."""
    steps = [step for step in whole if step >= first]
    wrong = [step for step in steps if resumed.get(step) != whole[step]]
    if steps and not wrong:
        return []
    planned, found = (Counter(row for step in steps for row in rows.get(step, ())) for rows in (whole, resumed))
    left_out, twice = (planned - found).total(), (found - planned).total()
    return [
        f"{len(wrong)} of {len(steps)} steps behind checkpoint-{first} have other rows than without a break: "
        f"of their {planned.total()} rows {left_out} are left out, and {twice} are seen again instead; let the order "
        "depend on seed and epoch alone, and skip the rows that the checkpoint has seen"
    ]


def weight_problems(whole: Mapping[str, Any], resumed: Mapping[str, Any], exact: bool) -> list[str]:
    """Tensors that differ between an uninterrupted and a resumed training."""
    if whole.keys() != resumed.keys():
        return [f"different tensors: {', '.join(sorted(whole.keys() ^ resumed.keys()))}"]
    apart = {name: _apart(whole[name], resumed[name], exact) for name in whole}
    limit = 0.0 if exact else WEIGHT_TOLERANCE
    wrong = {name: distance for name, distance in apart.items() if not distance <= limit}
    if not wrong:
        return []
    worst = max(wrong, key=lambda name: wrong[name])
    return [f"{len(wrong)} of {len(apart)} tensors differ, {worst} by {wrong[worst]:.2g}"]


def _apart(one: Any, other: Any, exact: bool) -> float:
    """The largest distance of two tensors; of rounded ones, where the last digit may differ, beyond that digit."""
    from torch import finfo, float32, maximum

    digit = 0.0 if exact or one.dtype == float32 else finfo(one.dtype).eps
    first, second = one.float(), other.float()
    return ((first - second).abs() - digit * maximum(first.abs(), second.abs())).max().item()
