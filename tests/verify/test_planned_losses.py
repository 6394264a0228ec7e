"""How much answers count in a loss, held to the formula of each method: PyTorch's own derivatives are the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from emitted import RECIPES, built
from msgspec.structs import replace
from torch.nn.functional import logsigmoid

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import BundleStage, read_bundle
from recipec.verify.losses import SeenStep, check_loss, loss_problems
from recipec.verify.report import VerifyReport

TOKENS = (2, 5, 3, 4)  # of two chosen and two rejected answers
Loss = Callable[[torch.Tensor, torch.Tensor, dict[str, Any]], torch.Tensor]


def stage_of(name: str, **decisions: Any) -> BundleStage:
    stage = read_bundle(built(name)).last
    return replace(stage, decisions={**stage.decisions, **decisions})


def batch_of(loss: Loss, given: dict[str, Any], means: float = -1.5) -> dict[str, Any]:
    """What the shim notes of a batch whose loss is made from log-probabilities of tokens."""
    logs = [torch.full((count,), means - 0.1 * place, requires_grad=True) for place, count in enumerate(TOKENS)]
    loss(torch.stack([each.sum() for each in logs]), torch.tensor(TOKENS), given).backward()
    ends = [(len(each), each.sum().item(), each.grad.min().item(), each.grad.max().item()) for each in logs]
    return {"answers": ends, "labels": given.get("labels")}


def dpo(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = (sums - sums.detach()).chunk(2)  # the policy is its reference
    return -logsigmoid(given["beta"] * (chosen - rejected)).mean()


def per_token(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    return dpo(sums / counts, counts, given)


def hinge(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = (sums - sums.detach()).chunk(2)
    return torch.relu(1 - given["beta"] * (chosen - rejected)).mean()


def ipo(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = ((sums - sums.detach()) / counts).chunk(2)
    return (chosen - rejected - 1 / (2 * given["beta"])).square().mean()


def other_reference(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = (sums - sums.detach()).chunk(2)
    return -logsigmoid(given["beta"] * (chosen - rejected + 3.0)).mean()


def robust(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    """Of robust DPO (arXiv 2403.00409), where a tenth of the labels is wrong."""
    chosen, rejected = (given["beta"] * (sums - sums.detach())).chunk(2)
    right, wrong = logsigmoid(chosen - rejected), logsigmoid(rejected - chosen)
    return ((0.1 * wrong - 0.9 * right) / 0.8).mean()


def kto(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    signs = torch.tensor([1.0 if label else -1.0 for label in given["labels"]])
    weights = torch.where(signs > 0, given["desirable"], given["undesirable"])
    return (weights * (1 - torch.sigmoid(given["beta"] * signs * (sums - sums.detach())))).mean()


def orpo(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    means = sums / counts
    chosen, rejected = (means - torch.log1p(-means.exp())).chunk(2)
    nll = -sums.chunk(2)[0].sum() / counts.chunk(2)[0].sum()
    return nll - given["beta"] * logsigmoid(chosen - rejected).mean()


def cpo(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = sums.chunk(2)
    nll = -chosen.sum() / counts.chunk(2)[0].sum()
    return given["nll_weight"] * nll - logsigmoid(given["beta"] * (chosen - rejected)).mean()


def simpo(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    chosen, rejected = (sums / counts).chunk(2)
    return -logsigmoid(given["beta"] * (chosen - rejected) - given["gamma"]).mean()


def supervised(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    return -sums.sum() / counts.sum() * given.get("times", 1)


def by_answer(sums: torch.Tensor, counts: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    return -(sums / counts).mean()


LABELS = {"labels": [True, False, True, False], "desirable": 1.0, "undesirable": 1.5}
KTO = stage_of("kto", kto_beta=0.2, undesirable_weight=1.5)
PLANNED = [
    (stage_of("dpo"), dpo, {"beta": 0.1}),
    (stage_of("dpo", dpo_loss="hinge"), hinge, {"beta": 0.1}),
    (stage_of("dpo", dpo_loss="ipo"), ipo, {"beta": 0.1}),
    (stage_of("dpo", dpo_loss="robust"), robust, {"beta": 0.1}),
    (KTO, kto, {"beta": 0.2, **LABELS}),
    (stage_of("orpo"), orpo, {"beta": 0.1}),
    (stage_of("cpo", nll_weight=0.5), cpo, {"beta": 0.1, "nll_weight": 0.5}),
    (stage_of("simpo"), simpo, {"beta": 2.0, "gamma": 1.0}),
    (stage_of("sft-lora"), supervised, {}),
]


@pytest.mark.parametrize(("stage", "loss", "given"), PLANNED, ids=[loss.__name__ for _, loss, _ in PLANNED])
def test_the_planned_loss_counts_as_its_formula_says(stage: BundleStage, loss: Loss, given: dict[str, Any]) -> None:
    assert loss_problems(stage, [batch_of(loss, given)], SeenStep()) == []
    halved = batch_of(lambda *of: loss(*of) / 2, given)
    assert loss_problems(stage, [halved] * 2, SeenStep(2)) == [], "of two micro batches each is half of the step"


def test_tokens_of_several_ranks_are_those_of_all() -> None:
    """A rank that has 14 of 40 tokens learns by the mean of two; 8 tokens cannot be all that it has 14 of."""
    stage, batch = stage_of("sft-lora"), batch_of(supervised, {"times": sum(TOKENS) / 20})
    assert loss_problems(stage, [batch], SeenStep(ranks=2, tokens=20.0)) == []
    assert loss_problems(stage, [batch], SeenStep(ranks=2, tokens=30.0))
    assert loss_problems(stage, [batch_of(supervised, {"times": sum(TOKENS) / 4})], SeenStep(ranks=2, tokens=4.0))


OTHERS = [
    (stage_of("dpo"), per_token, {"beta": 0.1}, "each of its 2 tokens of the chosen answer of row 1 counts -0.0125"),
    (stage_of("dpo"), dpo, {"beta": 0.3}, "and -0.025 by the loss of direct preference optimization with beta 0.1"),
    (stage_of("dpo"), hinge, {"beta": 0.1}, "counts -0.05 in the loss"),
    (stage_of("dpo"), other_reference, {"beta": 0.1}, "counts -0.0213"),
    (KTO, kto, {"beta": 0.2, **LABELS, "undesirable": 1.0}, "of the undesirable answer of row 2 counts 0.0125"),
    (stage_of("orpo"), orpo, {"beta": 0.5}, "each of its 2 tokens of the chosen answer"),
    (stage_of("cpo"), cpo, {"beta": 0.1, "nll_weight": 0.0}, "each of its 2 tokens of the chosen answer"),
    (stage_of("simpo"), simpo, {"beta": 2.0, "gamma": 0.0}, "with beta 2.0, gamma 1.0"),
    (stage_of("sft-lora"), by_answer, {}, "each of its 2 tokens of the answer of row 1 counts -0.125 in the loss"),
    (stage_of("sft-lora"), supervised, {"times": 100}, "counts -7.14 in the loss, and -0.0714 by the loss of"),
]


@pytest.mark.parametrize(("stage", "loss", "given", "words"), OTHERS)
def test_another_loss_is_found(stage: BundleStage, loss: Loss, given: dict[str, Any], words: str) -> None:
    (problem,) = loss_problems(stage, [batch_of(loss, given)], SeenStep())
    assert words in problem and problem.endswith("look at the loss, and at what is made of it, in train.py")


def test_tokens_of_one_answer_must_count_alike() -> None:
    """As with ld_alpha of DPO, which makes less of what one answer has beyond the length of the other."""
    batch = batch_of(dpo, {"beta": 0.1})
    tokens, logs, least, most = batch["answers"][1]
    batch["answers"][1] = (tokens, logs, least, most / 2)
    (problem,) = loss_problems(stage_of("dpo"), [batch], SeenStep())
    assert "the chosen answer of row 2 counts -0.025 to -0.0125 in the loss" in problem


def test_a_loss_that_is_not_made_of_what_the_model_says_is_found() -> None:
    (problem,) = loss_problems(stage_of("dpo"), [], SeenStep())
    assert problem.startswith("no loss of train.py is made from what the model says")


def test_scores_of_a_reward_model_are_held_apart_and_around_zero() -> None:
    scores = torch.tensor([1.0, 0.5, 0.2, 0.7], requires_grad=True)
    chosen, rejected = scores.chunk(2)
    (-logsigmoid(chosen - rejected).mean() + 0.01 * (chosen + rejected).square().mean()).backward()
    batch = {"scores": scores.tolist(), "weights": scores.grad.tolist()}
    assert loss_problems(stage_of("reward"), [batch], SeenStep()) == []
    (problem,) = loss_problems(stage_of("reward", center_rewards_coefficient=0.1), [batch], SeenStep())
    assert problem.startswith("each score of the chosen answer of row 1 counts")


def test_the_plan_tells_what_a_recipe_passes_to_the_trainer(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    text = (RECIPES / "dpo.toml").read_text().replace('"data/pairs.jsonl"', f'"{RECIPES}/data/pairs.jsonl"')
    recipe.write_text(f"{text}\n[train.arguments]\nld_alpha = 0.5\n")
    done = compile_recipe(recipe)
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    assert read_bundle(tmp_path / "out").last.passed_on == {"ld_alpha": 0.5}
    assert stage_of("dpo").passed_on == {}


def test_a_recipe_that_makes_another_formula_is_not_held_to_this_one() -> None:
    report = VerifyReport("run")
    check_loss(replace(stage_of("dpo"), passed_on={"ld_alpha": 0.5}), {}, report)
    assert not report.checks and "sets ld_alpha under [train.arguments]" in report.not_run[0].reason


@pytest.mark.parametrize(
    "stated",
    [{"f_divergence_type": "reverse_kl"}, {"use_weighting": False}, {"sync_ref_model": False, "discopop_tau": 0.05}],
)
def test_a_recipe_that_states_a_default_is_held_to_the_formula(stated: dict[str, object]) -> None:
    report = VerifyReport("run")
    check_loss(replace(stage_of("dpo"), passed_on=stated), {}, report)
    assert report.checks and not report.not_run
