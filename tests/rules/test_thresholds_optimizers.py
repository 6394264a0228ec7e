"""What other optimizers than AdamW change: rate, decay and betas."""

from __future__ import annotations

import pytest

from recipec.rules import optimizer

SEVEN = 7_000_000_000


@pytest.mark.parametrize("name", ["lion", "lion-8bit"])
def test_lion_learns_at_a_tenth_of_adamws_rate_and_decays_ten_times_more(name):
    for stage, adaptation, rate, accepts in (
        ("sft", "lora", 2e-5, (1e-5, 1.7e-4)),
        ("sft", "full", 2e-6, (1e-6, 1.7e-5)),
        ("dpo", "full", 5e-8, (5e-8, 1.7e-6)),
        ("pretrain", "full", 3e-5, (1e-5, 1e-4)),
    ):
        choice = optimizer.learning_rate(stage, adaptation, 5_000, SEVEN, name)
        assert (choice.value, choice.accepts) == (rate, accepts)
        assert "3 to 10 times lower than AdamW's" in choice.because
    assert optimizer.weight_decay("sft", name).value == 0.1
    assert optimizer.weight_decay("sft", name).accepts == (0.03, 1.0)
    assert optimizer.weight_decay("pretrain", name).value == 1.0
    assert {optimizer.adam_beta2(stage, "full", name).value for stage in ("sft", "pretrain")} == {0.99}


def test_sgd_has_a_rate_of_its_own_and_no_decay():
    for stage, adaptation in (("sft", "lora"), ("sft", "full"), ("pretrain", "full")):
        choice = optimizer.learning_rate(stage, adaptation, 5_000, SEVEN, "sgd")
        assert (choice.value, choice.accepts) == (0.03, (1e-3, 0.1))
        assert optimizer.weight_decay(stage, "sgd").value == 0.0


@pytest.mark.parametrize("name", ["adamw-8bit", "paged-adamw", "paged-adamw-8bit", "adafactor"])
def test_other_optimizers_learn_at_adamws_rate(name):
    for stage, adaptation in (("sft", "lora"), ("dpo", "full"), ("pretrain", "full")):
        adamw, other = (optimizer.learning_rate(stage, adaptation, 5_000, SEVEN, o) for o in ("adamw", name))
        assert (other.value, other.accepts) == (adamw.value, adamw.accepts)
        assert optimizer.weight_decay(stage, name) == optimizer.weight_decay(stage)
