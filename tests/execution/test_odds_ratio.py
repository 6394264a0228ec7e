"""The trainer that bundles of ORPO bring: its loss against the formula of the paper, and that no reference is there."""

from __future__ import annotations

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, WORDS, first_batch, gradients, pairs, save, tokenizer

pytestmark = pytest.mark.executes

BETA = 0.4
KINDS = {"qwen2": {}, "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2}}


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Makes a trainer of the bundle for a random model, in fp32 on this CPU."""
    from trl import DPOConfig

    def make(kind="qwen2", peft_config=None, **arguments):
        recipe = with_key(BASES["orpo"], "train.adaptation", "lora" if peft_config else "full")
        if kind == "mixtral":
            recipe = with_key(
                with_key(recipe, "model.name", "mistralai/Mixtral-8x7B-v0.1"), "hardware.gpus_per_node", 8
            )
        bundle = texts(good(tmp_path / "recipe", recipe))
        (tmp_path / "odds_ratio.py").write_text(bundle["odds_ratio.py"])
        emitted = load(tmp_path / "odds_ratio.py", monkeypatch)
        save(tmp_path / "model", seed=1, model_type=kind, vocab_size=WORDS, hidden_size=32, **KINDS[kind])
        asked = ARGUMENTS | {"precompute_ref_log_probs": not peft_config, "beta": BETA} | arguments
        return emitted.OddsRatioTrainer(
            model=str(tmp_path / "model"),
            args=DPOConfig(output_dir=str(tmp_path / "out"), **asked),
            train_dataset=pairs(),
            eval_dataset=pairs(),
            processing_class=tokenizer(),
            peft_config=peft_config,
        )

    return make


def _plain(trainer, batch):
    """The loss of the paper from whole softmaxes in fp64, its odds written as p / (1 - p)."""
    import torch

    logits = trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    logs = torch.log_softmax(logits[:, :-1].double(), -1).gather(2, batch["input_ids"][:, 1:, None])[..., 0]
    learned = batch["completion_mask"][:, 1:].double()
    likely = ((logs * learned).sum(1) / learned.sum(1)).exp()
    odds = likely / (1 - likely)
    pairs = len(odds) // 2
    ratio = odds[:pairs] / odds[pairs:]
    supervised = -(logs * learned)[:pairs].sum() / learned[:pairs].sum()
    return supervised - BETA * torch.log(torch.sigmoid(torch.log(ratio))).mean()


def test_the_loss_and_its_gradients_are_those_of_the_paper(trainers):
    trainer = trainers(activation_checkpointing=False)
    trainer.model.eval()
    batch = first_batch(trainer)
    loss, plain = trainer.compute_loss(trainer.model, dict(batch)), _plain(trainer, batch)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    ours, theirs = gradients(trainer, loss), gradients(trainer, plain)
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() <= 1e-5 * max(1.0, gradient.abs().max()), name


def test_its_odds_ratio_is_that_of_orpo_trainer(trainers, monkeypatch):
    """TRL's own, given the same mean log-probabilities."""
    import torch

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.orpo import ORPOTrainer

    trainer = trainers()
    trainer.model.eval()
    trainer._metrics["eval"].clear()
    trainer.compute_loss(trainer.model, first_batch(trainer))
    logged = {name: values[-1] for name, values in trainer._metrics["eval"].items()}
    per_pair = []
    for chosen, rejected in zip(*_means(trainer), strict=True):
        _, _, _, ratio, log_odds = ORPOTrainer.odds_ratio_loss(trainer, chosen[None], rejected[None])
        per_pair.append((ratio, log_odds))
    ratios, odds = (torch.stack(values).mean().item() for values in zip(*per_pair, strict=True))
    assert logged["log_odds_ratio"] == pytest.approx(ratios, rel=1e-4)
    assert logged["log_odds_chosen"] == pytest.approx(odds, rel=1e-4)


def _means(trainer):
    import torch

    batch = first_batch(trainer)
    logits = trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    logs = torch.log_softmax(logits[:, :-1], -1).gather(2, batch["input_ids"][:, 1:, None])[..., 0]
    learned = batch["completion_mask"][:, 1:]
    return ((logs * learned).sum(1) / learned.sum(1)).detach().chunk(2)


def test_all_weights_train_without_a_reference_beside_them(trainers):
    assert trainers().ref_model is None


def test_an_adapter_gets_the_same_loss(trainers):
    from peft import LoraConfig

    trainer = trainers(peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    trainer.model.eval()
    batch = first_batch(trainer)
    assert trainer.compute_loss(trainer.model, dict(batch)).item() == pytest.approx(
        _plain(trainer, batch).item(), rel=1e-5
    )


def test_experts_are_balanced_too(trainers):
    trainer = trainers("mixtral", router_aux_loss_coef=0.5)
    trainer.model.eval()
    batch = first_batch(trainer)
    loss = trainer.compute_loss(trainer.model, dict(batch)).item()
    aux = trainer._metrics["eval"]["aux_loss"][-1]
    assert aux > 0
    assert loss == pytest.approx(_plain(trainer, batch).item() + 0.5 * aux, rel=1e-4)


def test_answers_without_a_learned_token_give_a_finite_loss(trainers):
    import torch

    trainer = trainers()
    batch = first_batch(trainer)
    batch["completion_mask"][:] = 0
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("log", [-1e-7, -1e-3, -0.5, -0.7, -5.0, -80.0])
def test_log1mexp_keeps_its_digits(trainers, log):
    import math
    import sys

    import torch

    trainers()
    log1mexp = sys.modules["emitted_odds_ratio"].log1mexp
    exact = math.log(-math.expm1(min(log, -1e-6)))
    assert log1mexp(torch.tensor(log)).item() == pytest.approx(exact, rel=1e-5)
