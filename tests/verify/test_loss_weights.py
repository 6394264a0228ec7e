"""What the shim notes of a loss: how much each token counts, be the loss made of log-probabilities or of logits."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
import torch

from recipec.verify.sandbox import SHIM

LABELS = torch.tensor([[-100, -100, 3, 1, 4], [-100, 2, 2, -100, -100]])
LEARNED = LABELS[:, 1:] != -100

spec = importlib.util.spec_from_file_location("loss_weights", SHIM / "cpu_stand_in" / "loss_weights.py")
loss_weights = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loss_weights)


def of_labels(logits: torch.Tensor) -> torch.Tensor:
    return logits[:, :-1].log_softmax(-1).gather(-1, LABELS[:, 1:].clamp(min=0)[..., None])[..., 0] * LEARNED


@pytest.mark.parametrize("fused", [True, False])
def test_the_weight_of_every_learned_token_is_noted(fused: bool) -> None:
    logits = torch.randn(2, 5, 7, generator=torch.manual_seed(0)).requires_grad_()
    found: list[dict] = []
    log_probs = of_labels(logits)
    output = SimpleNamespace(log_probs=log_probs) if fused else SimpleNamespace(logits=logits)
    loss_weights.note(found, {"label": torch.tensor([True, False])}, {"labels": LABELS}, output)
    weights = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.5, 0.5, 9.0, 9.0]])
    (weights * log_probs).sum().backward()
    (batch,) = found
    assert batch["labels"] == [True, False]
    sums = log_probs.sum(1).tolist()
    wanted = [(3, sums[0], 1.0, 3.0), (2, sums[1], 0.5, 0.5)]
    assert [tuple(each) for each in batch["answers"]] == [pytest.approx(each, rel=1e-4) for each in wanted]


def test_the_weights_of_scores_are_noted() -> None:
    scores = torch.tensor([[0.5], [-1.0]], requires_grad=True)
    found: list[dict] = []
    loss_weights.note(found, {}, {}, SimpleNamespace(logits=scores))
    (scores * torch.tensor([[2.0], [3.0]])).sum().backward()
    assert found == [{"scores": [0.5, -1.0], "weights": [2.0, 3.0]}]


def test_virtual_tokens_stand_before_the_others() -> None:
    log_probs = torch.zeros(2, 6, requires_grad=True)
    found: list[dict] = []
    loss_weights.note(found, {}, {"labels": LABELS}, SimpleNamespace(log_probs=log_probs))
    (log_probs * torch.arange(6)).sum().backward()
    assert [each[2:] for each in found[0]["answers"]] == [[3.0, 5.0], [2.0, 3.0]]
