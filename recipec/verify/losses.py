"""How much every answer counts in the first step's loss, as the shim noted it, against the formula of the planned loss.

A first loss says little: that of DPO is ln 2 whatever beta is, and for sums and means alike. What a step learns by is
the derivative of the loss by the log-probability of every token, and each form has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes.method import OF_DPO_ALONE
from recipec.axes.methods.dpo import WRONG_LABELS
from recipec.recipe.trainer_arguments import without_effect
from recipec.verify.bundle import BundleStage
from recipec.verify.report import VerifyReport

TOLERANCE = 0.02  # of a weight: the rounding of bf16, and a policy that is its reference to a rounding
# Arguments that a recipe may state by itself, and that make other formulas of these.
_OTHER_FORMULAS = {*OF_DPO_ALONE, "label_smoothing_factor", "disable_dropout"}

Answer = tuple[int, float, float, float]  # learned tokens, their log-probability, the least and the largest weight
Given = Mapping[str, Any]  # argument -> the planned value


class SeenStep(Struct, frozen=True):
    """The first step of a training."""

    accumulated: int = 1  # micro batches of a rank
    ranks: int = 1
    tokens: float = 0.0  # learned ones of a rank, on average, as the Trainer counts them


def check_loss(stage: BundleStage, seen: Mapping[str, Any], report: VerifyReport) -> None:
    """Hold the weights of all answers of the first step to the plan."""
    if stage.loop.own or stage.method.loss not in WEIGHTS:
        return
    name = f"{stage.name}: the loss is the planned one"
    if own := _of_another_formula(stage):
        report.skip(name, f"the recipe sets {', '.join(own)} under [train.arguments], which make another formula of it")
        return
    if stage.decisions["compile"]:
        report.skip(name, "nothing can be noted within a compiled model")
        return
    batches = seen.get("losses", [])
    counted = sum(len(batch.get("answers") or batch["scores"]) for batch in batches)
    said = f"{counted} answers of the first step count in it as by {_formula(stage)}"
    step = SeenStep(seen.get("accumulated", 1), seen.get("ranks", 1), seen.get("tokens", 0.0))
    report.add(name, loss_problems(stage, batches, step), said)


def _of_another_formula(stage: BundleStage) -> list[str]:
    """The arguments that the recipe states, with values that make another formula."""
    own = sorted(_OTHER_FORMULAS & stage.passed_on.keys())
    return [name for name in own if not without_effect(name, stage.passed_on[name])]


def _formula(stage: BundleStage) -> str:
    told = ", ".join(f"{name} {value}" for name, value in planned_values(stage).items())
    return f"the loss of {stage.method.title}{f' with {told}' if told else ''}"


def planned_values(stage: BundleStage) -> dict[str, Any]:
    """The arguments of the loss's formula, as decided."""
    return {own.argument: stage.decisions[own.name] for own in stage.method.own if own.name in stage.decisions}


def loss_problems(stage: BundleStage, batches: Sequence[Mapping[str, Any]], step: SeenStep) -> list[str]:
    """Answers that count more, less or in another way than the planned loss makes them count."""
    if not batches:
        return ["no loss of train.py is made from what the model says of a batch: look at the trainer in train.py"]
    share = _tokens_of_rank(batches, step) if stage.method.loss == "supervised" else step.accumulated
    problems = [said for batch in batches for said in _batch_problems(stage, batch, share)]
    return [f"{problems[0]}: look at the loss, and at what is made of it, in train.py"] if problems else []


def _batch_problems(stage: BundleStage, batch: Mapping[str, Any], share: float) -> Iterator[str]:
    """Problems of a micro batch, whose weights are divided by the `share`."""
    found = [(weight, weight) for weight in batch["weights"]] if "scores" in batch else _ends(batch["answers"])
    planned = WEIGHTS[stage.method.loss](batch, planned_values(stage))
    for number, ((least, most), wanted) in enumerate(zip(found, planned, strict=True)):
        weight = wanted / share
        if all(math.isclose(each, weight, rel_tol=TOLERANCE, abs_tol=1e-9) for each in (least, most)):
            continue
        which = f"the {_kind(stage, batch, number, len(planned))} of row {_row(stage, number, len(planned)) + 1}"
        tokens = f" of its {batch['answers'][number][0]} tokens" if "answers" in batch else ""
        counts = f"{least:.3g}" if math.isclose(least, most, rel_tol=TOLERANCE) else f"{least:.3g} to {most:.3g}"
        yield f"each{tokens or ' score'} of {which} counts {counts} in the loss, and {weight:.3g} by {_formula(stage)}"


def _ends(answers: Sequence[Answer]) -> list[tuple[float, float]]:
    return [(least, most) for _, _, least, most in answers]


def _tokens_of_rank(batches: Sequence[Mapping[str, Any]], step: SeenStep) -> float:
    """What a supervised loss divides by: the tokens of the whole step, and of several ranks the mean over them.

    The batches are those of one rank. What the others have is the Trainer's count, and all have what this one has.
    """
    seen = sum(tokens for batch in batches for tokens, *_ in batch["answers"])
    return max(seen / step.ranks, step.tokens if step.ranks > 1 else 1.0)


def _kind(stage: BundleStage, batch: Mapping[str, Any], number: int, count: int) -> str:
    if batch.get("labels"):
        return "desirable answer" if batch["labels"][number] else "undesirable answer"
    if stage.method.loss == "supervised":
        return "answer"
    return "chosen answer" if number < count // 2 else "rejected answer"


def _row(stage: BundleStage, number: int, count: int) -> int:
    return number % (count // 2) if "pairs" in stage.method.kinds else number


def _supervised(batch: Mapping[str, Any], given: Given) -> list[float]:
    """Every token counts alike."""
    return [-1.0 if tokens else 0.0 for tokens, *_ in batch["answers"]]


# Of beta: how steep a loss of DPO is where policy = reference. The robust one, with a share e of wrong labels, has both
# directions and divides by 1 - 2e (TRL 1.16 trainer/dpo_trainer.py): (1 - e) / 2 + e / 2 of that.
_AT_START = {"sigmoid": 0.5, "hinge": 1.0, **{loss: 0.5 / (1 - 2 * share) for loss, share in WRONG_LABELS.items()}}


def _pairs(batch: Mapping[str, Any], given: Given) -> list[float]:
    """DPO in its first step; ipo alone compares means."""
    pairs, beta, form = len(batch["answers"]) // 2, given["beta"], given["loss_type"]
    if form == "ipo":
        steep = [1 / (beta * max(tokens, 1)) for tokens, *_ in batch["answers"]]
    else:
        steep = [beta * _AT_START[form]] * len(batch["answers"])
    return _opposed([each / pairs for each in steep])


def _unpaired(batch: Mapping[str, Any], given: Given) -> list[float]:
    """KTO in its first step, where the KL is 0: a sigmoid at 0 rises by a quarter."""
    steep = given["beta"] / 4 / len(batch["answers"])
    wanted, unwanted = given["desirable_weight"], given["undesirable_weight"]
    return [-wanted * steep if label else unwanted * steep for label in batch["labels"]]


def _odds(batch: Mapping[str, Any], given: Given) -> list[float]:
    """ORPO: log odds of mean log-probabilities, and the loss of the chosen answers."""
    tokens, means = _means(batch)
    odds = [mean - math.log1p(-math.exp(mean)) for mean in means]
    steep = _pulls(odds, given["beta"], 1.0, 0.0)
    by_token = [pull / (1 - math.exp(mean)) / count for pull, mean, count in zip(steep, means, tokens, strict=True)]
    return _with_likelihood(_opposed(by_token), tokens, 1.0)


def _contrast(batch: Mapping[str, Any], given: Given) -> list[float]:
    """CPO: sums of log-probabilities, and the loss of the chosen answers."""
    tokens, sums = [each[0] for each in batch["answers"]], [each[1] for each in batch["answers"]]
    return _with_likelihood(_opposed(_pulls(sums, given["beta"], given["beta"], 0.0)), tokens, given["nll_weight"])


def _margin(batch: Mapping[str, Any], given: Given) -> list[float]:
    """SimPO: means of log-probabilities, a margin apart."""
    tokens, means = _means(batch)
    steep = _pulls(means, given["beta"], given["beta"], given["gamma"])
    return _opposed([pull / count for pull, count in zip(steep, tokens, strict=True)])


def _ranking(batch: Mapping[str, Any], given: Given) -> list[float]:
    """A reward model: scores, which center_rewards_coefficient holds around 0."""
    scores, center = batch["scores"], given["center_rewards_coefficient"] or 0.0
    pairs = len(scores) // 2
    held = [2 * center * (scores[n] + scores[n + pairs]) / pairs for n in range(pairs)] * 2
    return [pull + back for pull, back in zip(_opposed(_pulls(scores, 1.0, 1.0, 0.0)), held, strict=True)]


def _pulls(values: Sequence[float], steep: float, beta: float, gamma: float) -> list[float]:
    """Of -log sigmoid(beta (chosen - rejected) - gamma), a mean over pairs: how steep it is, for every answer."""
    pairs = len(values) // 2
    apart = [beta * (values[n] - values[n + pairs]) - gamma for n in range(pairs)]
    return [steep / (1 + math.exp(each)) / pairs for each in apart] * 2


def _opposed(pulls: Sequence[float]) -> list[float]:
    """Chosen answers lower a loss, rejected ones raise it."""
    pairs = len(pulls) // 2
    return [-pull for pull in pulls[:pairs]] + [*pulls[pairs:]]


def _with_likelihood(weights: Sequence[float], tokens: Sequence[int], weight: float) -> list[float]:
    """And the mean loss of all tokens of the chosen answers."""
    pairs = len(weights) // 2
    return [each - weight / sum(tokens[:pairs]) for each in weights[:pairs]] + [*weights[pairs:]]


def _means(batch: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    tokens = [max(each[0], 1) for each in batch["answers"]]
    return tokens, [each[1] / count for each, count in zip(batch["answers"], tokens, strict=True)]


WEIGHTS: dict[str, Callable[[Mapping[str, Any], Given], list[float]]] = {  # Method.loss -> of all tokens of each answer
    "supervised": _supervised,
    "pairs": _pairs,
    "unpaired": _unpaired,
    "odds": _odds,
    "contrast": _contrast,
    "margin": _margin,
    "ranking": _ranking,
}
