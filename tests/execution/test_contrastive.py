"""The trainers that bundles of CPO and SimPO bring: their losses against the formulas of the papers, and TRL's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, WORDS, first_batch, gradients, pairs, save, tokenizer

pytestmark = pytest.mark.executes

BETA, GAMMA, NLL_WEIGHT = 0.4, 0.3, 0.7
BROUGHT = {  # method -> the file of its trainer, the class, and what only that takes
    "cpo": ("contrastive.py", "ContrastiveTrainer", {"nll_weight": NLL_WEIGHT}),
    "simpo": ("simpo.py", "SimPOTrainer", {"gamma": GAMMA}),
}
KINDS = {"qwen2": {}, "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2}}
LARGE = {"model.name": "mistralai/Mixtral-8x7B-v0.1", "hardware.gpus_per_node": 8}


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Makes a trainer of the bundle for a random model, in fp32 on this CPU."""
    from trl import DPOConfig

    def make(method, kind="qwen2", peft_config=None, **arguments):
        file, name, brought = BROUGHT[method]
        asked = {"train.adaptation": "lora" if peft_config else "full"}
        recipe = BASES[method]
        for key, value in (asked | (LARGE if kind == "mixtral" else {})).items():
            recipe = with_key(recipe, key, value)
        (tmp_path / file).write_text(texts(good(tmp_path / "recipe", recipe))[file])
        emitted = load(tmp_path / file, monkeypatch)
        save(tmp_path / "model", seed=1, model_type=kind, vocab_size=WORDS, hidden_size=32, **KINDS[kind])
        given = ARGUMENTS | {"precompute_ref_log_probs": not peft_config, "beta": BETA} | arguments
        trainer = getattr(emitted, name)(
            model=str(tmp_path / "model"),
            args=DPOConfig(output_dir=str(tmp_path / "out"), **given),
            train_dataset=pairs(),
            eval_dataset=pairs(),
            processing_class=tokenizer(),
            peft_config=peft_config,
            **brought,
        )
        trainer.model.eval()
        return trainer

    return make


def _logits(trainer, batch):
    return trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.double()


def _plain(trainer, batch, method):
    """The loss of the paper from whole softmaxes in fp64, pair by pair."""
    import torch

    logs = torch.log_softmax(_logits(trainer, batch)[:, :-1], -1).gather(2, batch["input_ids"][:, 1:, None])[..., 0]
    answers = [row[mask.bool()] for row, mask in zip(logs, batch["completion_mask"][:, 1:], strict=True)]
    half, preference = len(answers) // 2, 0.0
    for chosen, rejected in zip(answers[:half], answers[half:], strict=True):
        if method == "simpo":
            margin = BETA / len(chosen) * chosen.sum() - BETA / len(rejected) * rejected.sum() - GAMMA
        else:
            margin = BETA * chosen.sum() - BETA * rejected.sum()
        preference = preference - torch.log(1 / (1 + torch.exp(-margin))) / half
    return preference - (NLL_WEIGHT * torch.cat(answers[:half]).mean() if method == "cpo" else 0)


@pytest.mark.parametrize("method", BROUGHT)
def test_the_loss_and_its_gradients_are_those_of_the_paper(trainers, method):
    trainer = trainers(method, activation_checkpointing=False)
    batch = first_batch(trainer)
    found, plain = trainer.compute_loss(trainer.model, dict(batch)), _plain(trainer, batch, method)
    assert found.item() == pytest.approx(plain.item(), rel=1e-5)
    ours, theirs = gradients(trainer, found), gradients(trainer, plain)
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() <= 1e-5 * max(1.0, gradient.abs().max()), name


@pytest.mark.parametrize("method", BROUGHT)
def test_the_loss_and_what_is_logged_are_those_of_cpo_trainer(trainers, method, monkeypatch):
    """TRL's own, given the same logits."""
    import torch

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.cpo import CPOTrainer

    trainer = trainers(method)
    batch = first_batch(trainer)
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    logits = _logits(trainer, batch)
    logps = CPOTrainer.get_batch_logps(logits, labels.clone(), average_log_prob=method == "simpo")
    theirs = SimpleNamespace(
        beta=BETA,
        simpo_gamma=GAMMA,
        loss_type="simpo" if method == "simpo" else "sigmoid",
        alpha=0.0,
        label_smoothing=0.0,
        accelerator=trainer.accelerator,
    )
    losses, chosen, rejected = CPOTrainer.cpo_loss(theirs, *logps.chunk(2))
    half = len(labels) // 2
    nll = torch.nn.functional.cross_entropy(logits[:half, :-1].flatten(0, 1), labels[:half, 1:].flatten())
    trainer._metrics["eval"].clear()
    found = trainer.compute_loss(trainer.model, dict(batch))
    logged = {name: values[-1] for name, values in trainer._metrics["eval"].items()}
    supervised = {"nll_loss": nll} if method == "cpo" else {}
    assert found.item() == pytest.approx((losses.mean() + NLL_WEIGHT * sum(supervised.values())).item(), rel=1e-5)
    expected = supervised | {
        "logps/chosen": logps[:half].mean(),
        "logps/rejected": logps[half:].mean(),
        "rewards/chosen": chosen.mean(),
        "rewards/rejected": rejected.mean(),
        "rewards/margins": (chosen - rejected).mean(),
        "rewards/accuracies": (chosen > rejected).float().mean(),
    }
    assert {name: logged[name] for name in expected} == pytest.approx(
        {name: value.item() for name, value in expected.items()}, rel=1e-4
    )


@pytest.mark.parametrize("method", BROUGHT)
def test_all_weights_train_without_a_reference_beside_them(trainers, method):
    trainer = trainers(method)
    assert trainer.ref_model is None
    assert not [name for name in trainer.train_dataset.column_names if name.startswith("ref_")]


@pytest.mark.parametrize("method", BROUGHT)
def test_an_adapter_gets_the_same_loss(trainers, method):
    from peft import LoraConfig

    trainer = trainers(method, peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    batch = first_batch(trainer)
    plain = _plain(trainer, batch, method).item()
    assert trainer.compute_loss(trainer.model, dict(batch)).item() == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("method", BROUGHT)
def test_experts_are_balanced_too(trainers, method):
    trainer = trainers(method, "mixtral", router_aux_loss_coef=0.5)
    batch = first_batch(trainer)
    loss = trainer.compute_loss(trainer.model, dict(batch)).item()
    aux = trainer._metrics["eval"]["aux_loss"][-1]
    assert aux > 0
    assert loss == pytest.approx(_plain(trainer, batch, method).item() + 0.5 * aux, rel=1e-4)


@pytest.mark.parametrize("method", BROUGHT)
def test_answers_without_a_learned_token_give_a_finite_loss(trainers, method):
    import torch

    trainer = trainers(method)
    batch = first_batch(trainer)
    batch["completion_mask"][:] = 0
    found = trainer.compute_loss(trainer.model, batch)
    found.backward()
    assert torch.isfinite(found)
