"""The trainer of elastic weight consolidation: Fisher information, penalty and gradient against plain arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, WORDS, gradients, save, tokenizer

pytestmark = pytest.mark.executes

STRENGTH = 3.0


def rows(first: int, number: int):
    from datasets import Dataset

    def words(start: int, length: int) -> str:
        return " ".join(f"w{3 + (start + 7 * place) % (WORDS - 3)}" for place in range(length))

    lengths = [2 + (first + place) % 5 for place in range(number)]
    return Dataset.from_list(
        [
            {"prompt": words(first + place, 3), "completion": words(first + place + 1, length)}
            for place, length in enumerate(lengths)
        ]
    )


def elastic_recipe():
    recipe = with_key(with_key(BASES["lora-single"], "train.adaptation", "full"), "data.general", "general.jsonl")
    return with_key(with_key(recipe, "model.name", "Qwen/Qwen2.5-0.5B-Instruct"), "train.ewc", {"strength": STRENGTH})


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Makes a trainer of the bundle for a random model, in fp32 on this CPU."""
    from trl import SFTConfig

    bundle = texts(good(tmp_path / "recipe", elastic_recipe()))
    (tmp_path / "elastic_weights.py").write_text(bundle["elastic_weights.py"])
    emitted = load(tmp_path / "elastic_weights.py", monkeypatch)
    save(tmp_path / "model", seed=1, model_type="qwen2", vocab_size=WORDS, hidden_size=32)

    def make(strength=STRENGTH, **arguments):
        return emitted.ElasticTrainer(
            model=str(tmp_path / "model"),
            args=SFTConfig(output_dir=str(tmp_path / "out"), **(ARGUMENTS | arguments)),
            train_dataset=rows(40, 16),
            eval_dataset=rows(60, 4),
            processing_class=tokenizer(),
            general_dataset=rows(0, 6),
            ewc_strength=strength,
        )

    return make


def plain_fisher(trainer):
    """Squared gradients of each row's log-likelihood from whole softmaxes, over the trained tokens of all rows."""
    import torch

    squares, tokens = {}, 0
    for row in trainer.general_dataset:
        ids, labels = (torch.tensor([row[name]]) for name in ("input_ids", "labels"))
        logs = torch.log_softmax(trainer.model(input_ids=ids).logits[:, :-1], -1)
        learned = labels[:, 1:] != -100
        likelihood = logs.gather(2, ids[:, 1:, None])[..., 0][learned].sum()
        for name, gradient in gradients(trainer, likelihood).items():
            squares[name] = squares.get(name, 0) + gradient.square()
        tokens += int(learned.sum())
    trainer.model.zero_grad()
    return {name: square / tokens for name, square in squares.items()}


def file_of(trainer) -> Path:
    return Path(trainer.args.output_dir, "ewc", "weights.safetensors")


def test_the_fisher_information_is_that_of_single_rows(trainers):
    trainer = trainers()
    plain = plain_fisher(trainer)
    found = trainer.fisher_information()
    assert found.keys() == plain.keys() == dict(trainer.model.named_parameters()).keys()
    for name, square in plain.items():
        assert square.max() > 0 and found[name].allclose(square, rtol=1e-3, atol=1e-9), name


def test_penalty_and_gradient_are_those_of_the_paper(trainers):
    """Of weights that have moved, on top of the gradient that is there."""
    import torch

    trainer = trainers()
    trainer.hold_weights(file_of(trainer), resumed=False)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight.add_(torch.randn_like(weight) * 0.01)
            weight.grad = torch.ones_like(weight)
    moved = {name: weight.detach().clone().requires_grad_() for name, weight in trainer.model.named_parameters()}
    plain = sum((trainer.fisher[name] * (moved[name] - trainer.start[name]) ** 2).sum() for name in moved)
    plain = STRENGTH / 2 * plain
    plain.backward()
    assert trainer.pull_back().item() == pytest.approx(plain.item(), rel=1e-5) and plain.item() > 0
    for name, weight in trainer.model.named_parameters():
        assert weight.grad.allclose(1 + moved[name].grad, rtol=1e-5, atol=1e-7), name
    assert trainer._metrics["train"]["ewc_penalty"] == [pytest.approx(plain.item(), rel=1e-5)]


def logged(trainer, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def moved(trainer) -> tuple[float, float]:
    """How far the weights with the largest and those with the smallest Fisher information have moved, squared."""
    import torch

    fisher = torch.cat([trainer.fisher[name].flatten() for name, _ in trainer.model.named_parameters()])
    far = [(weight.detach() - trainer.start[name]).flatten() for name, weight in trainer.model.named_parameters()]
    far, order = torch.cat(far).square(), fisher.argsort()
    learned = order[fisher[order] > 0]
    return far[order[-20:]].mean().item(), far[learned[: len(learned) // 4]].mean().item()


def test_weights_that_matter_stay_where_the_strength_is_large(trainers):
    """The strength is the largest with which plain steps converge: 1 / (rate * the largest Fisher information)."""
    rate, found, strength = 1e-3, [], 1e-9
    for _ in range(2):
        trainer = trainers(strength, max_steps=20, optim="sgd", learning_rate=rate, max_grad_norm=1e9)
        trainer.train()
        penalties = logged(trainer, "ewc_penalty")
        assert len(penalties) == 20 and penalties[0] == 0 and penalties[-1] > 0
        found.append(moved(trainer))
        strength = 1 / (rate * max(part.max().item() for part in trainer.fisher.values()))
    (free_mattering, free_others), (held_mattering, held_others) = found
    assert held_mattering < 0.25 * free_mattering
    assert held_others > 0.5 * free_others


def test_the_loss_is_logged_with_the_penalty(trainers):
    losses = {}
    for strength in (1e-9, 1e4):
        trainer = trainers(strength, max_steps=2, optim="sgd", gradient_accumulation_steps=2)
        trainer.train()
        losses[strength] = logged(trainer, "loss")
        penalties = logged(trainer, "ewc_penalty")
    assert losses[1e4][0] == pytest.approx(losses[1e-9][0], rel=1e-6), "the first step has no penalty"
    assert penalties[1] > 1e-3
    assert losses[1e4][1] == pytest.approx(losses[1e-9][1] + penalties[1], abs=2e-4)


def test_a_resumed_run_holds_the_same_weights(trainers):
    first = trainers(max_steps=2, save_strategy="steps", save_steps=1)
    first.train()
    second = trainers(max_steps=3, save_strategy="no")
    second.train(resume_from_checkpoint=f"{first.args.output_dir}/checkpoint-2")
    for name, weight in first.model.named_parameters():
        assert second.start[name].equal(first.start[name]) and second.fisher[name].equal(first.fisher[name])
        assert not first.start[name].equal(weight)
    assert logged(second, "ewc_penalty")[-1] > 0
    file_of(first).unlink()
    with pytest.raises(SystemExit, match=r"weights\.safetensors is missing.*move .*out away"):
        trainers(max_steps=4).train(resume_from_checkpoint=f"{first.args.output_dir}/checkpoint-2")


def test_two_tensors_for_each_weight_are_what_the_plan_counts(trainers):
    trainer = trainers()
    trainer.hold_weights(file_of(trainer), resumed=False)
    held = sum(tensor.nbytes for part in (trainer.fisher, trainer.start) for tensor in part.values())
    assert held == 2 * sum(weight.nbytes for weight in trainer.model.parameters())
    plan = good(file_of(trainer).parents[2] / "recipe", elastic_recipe()).plan.stages[0]
    terms = plan.memory.terms
    assert terms["fisher_information"] == terms["starting_weights"] == terms["weights"]
