"""Reward models: what the papers and the trainer say, and what follows from a result that scores."""

from __future__ import annotations

import pytest

from recipec.rules import batch, data, lora, optimizer, schedule

SEVEN, SEVENTY = 7_000_000_000, 70_000_000_000
SIZES = (999, 1_000, 10_000, 100_001)


@pytest.mark.parametrize(
    ("adaptation", "params", "rate"),
    [("lora", SEVEN, 1e-4), ("qlora", SEVENTY, 1e-4), ("full", SEVEN, 1e-5), ("full", SEVENTY, 5e-6)],
)
def test_learning_rate(adaptation, params, rate):
    found = optimizer.learning_rate("reward", adaptation, 50_000, params)
    assert found.value == rate
    assert adaptation != "full" or params == SEVENTY or found.accepts[0] < 9e-6 < found.accepts[1], "InstructGPT"


@pytest.mark.parametrize("examples", SIZES)
def test_a_second_pass_is_never_chosen(examples):
    assert schedule.epochs("reward", "lora", examples).value == 1


def test_batches_of_the_papers_are_accepted():
    found = batch.global_batch_size("reward", "full", 50_000, SEVEN, 2_048, 500)
    assert found.value == 64 and found.accepts[1] == 512


def test_no_noise_between_the_two_answers():
    assert lora.lora_dropout("reward", 500, ()).value == 0


def test_long_pairs_are_dropped_because_the_trainer_does_it():
    assert data.overflow("reward").value == "drop"
    assert "RewardTrainer" in data.overflow("reward").because


def test_a_score_counts_and_no_token():
    assert data.loss_on("reward", "preference", "model", True, False).value == "score"
    assert data.loss_on("dpo", "preference", "model", True, False).value == "completion"
