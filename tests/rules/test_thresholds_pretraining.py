"""Pretraining, continued or from random weights: thresholds below, at and above, and what differs from fine-tuning."""

from __future__ import annotations

import pytest

from recipec.rules import batch, data, lora, optimizer, schedule

RAW = ("continue-pretrain", "pretrain")


@pytest.mark.parametrize(
    ("params", "rate", "accepts"),
    [
        (125_000_000, 6e-4, (1e-4, 1e-3)),
        (299_999_999, 6e-4, (1e-4, 1e-3)),
        (300_000_000, 3e-4, (1e-4, 3e-4)),
        (19_999_999_999, 3e-4, (1e-4, 3e-4)),
        (20_000_000_000, 1.5e-4, (1e-4, 3e-4)),
        (99_999_999_999, 1.5e-4, (1e-4, 3e-4)),
        (100_000_000_000, 8e-5, (6e-5, 3e-4)),
    ],
)
def test_learning_rate_of_pretraining_by_the_size_of_the_model(params, rate, accepts):
    choice = optimizer.learning_rate("pretrain", "full", 10**7, params)
    assert (choice.value, choice.accepts) == (rate, accepts)


def test_pretraining_forgets_old_gradients_sooner():
    assert [optimizer.adam_beta2(stage, "full").value for stage in ("dpo", *RAW)] == [0.999, 0.95, 0.95]
    assert [optimizer.adam_beta2("continue-pretrain", name).value for name in ("lora", "qlora")] == [0.999, 0.999]
    assert [optimizer.weight_decay(stage).value for stage in ("sft", *RAW)] == [0.01, 0.1, 0.1]


@pytest.mark.parametrize(
    ("texts", "tokens", "sequences"),
    [(100_000, 2_048, 128), (100_001, 2_048, 512), (100_001, 500, 128), (5_000, 40_960, 128), (5_001, 40_960, 512)],
)
def test_global_batch_of_continued_pretraining_counts_blocks(texts, tokens, sequences):
    assert batch.global_batch_size("continue-pretrain", "lora", texts, 7_000_000_000, 2_048, tokens).value == sequences


@pytest.mark.parametrize(
    ("params", "length", "texts", "sequences"),
    [
        (999_999_999, 4_096, 10**9, 128),  # 0.5M tokens
        (1_000_000_000, 4_096, 10**9, 256),  # 1M
        (4_999_999_999, 4_096, 10**9, 256),
        (5_000_000_000, 4_096, 10**9, 1_024),  # 4M
        (99_999_999_999, 4_096, 10**9, 1_024),
        (100_000_000_000, 4_096, 10**9, 4_096),  # 16M
        (5_000_000_000, 8_192, 10**9, 512),
        (5_000_000_000, 3_000, 10**9, 1_024),  # down to a power of two
        (5_000_000_000, 4_096, 1_000_000, 128),  # 1B tokens in 1,000 steps: 1M each
        (5_000_000_000, 4_096, 10, 32),  # never fewer
        (100_000_000, 32_768, 10**9, 32),  # nor where what was published is fewer rows of such a length
    ],
)
def test_global_batch_of_pretraining_in_tokens(params, length, texts, sequences):
    choice = batch.global_batch_size("pretrain", "full", texts, params, length, 1_000)
    assert choice.value == sequences
    assert choice.accepts[0] <= min(sequences, 512) and choice.accepts[1] >= 4_096


@pytest.mark.parametrize("texts", [999, 1_000, 9_999, 10_000, 100_000, 100_001])
@pytest.mark.parametrize("stage", RAW)
def test_one_pass_over_any_amount_of_text(stage, texts):
    choice = schedule.epochs(stage, "full", texts)
    assert (choice.value, choice.accepts) == (1, (1, 3))


def test_warmup_is_short():
    assert [schedule.warmup(stage, 999).value for stage in RAW] == [0.03, 0.01]


@pytest.mark.parametrize(
    ("stage", "mean", "p99", "context", "expected"),
    [
        ("continue-pretrain", 600, 9_000, 131_072, 2_048),
        ("continue-pretrain", None, None, 1_024, 1_024),
        ("pretrain", 600, 9_000, 131_072, 4_096),
        ("pretrain", None, None, 2_048, 2_048),
    ],
)
def test_max_length_is_that_of_packed_rows(stage, mean, p99, context, expected):
    assert data.max_length(stage, mean, p99, context).value == expected


@pytest.mark.parametrize("stage", RAW)
def test_texts_are_packed_and_split(stage):
    assert data.packing(stage, "sdpa").value is True
    assert data.packing_strategy(stage, True).value == "wrapped"
    assert data.overflow(stage).value == "split"


def test_adapters_of_continued_pretraining_have_room_and_no_dropout():
    assert lora.lora_rank("continue-pretrain", False, 5_000, 24, False).value == 64
    assert lora.lora_dropout("continue-pretrain", 999, ()).value == 0.0


@pytest.mark.parametrize(
    ("blocks", "sequences", "least"),
    [(2_560, 128, 32), (2_559, 64, 32), (639, 16, 16), (319, 8, 8), (23, 8, 8), (16, 8, 8), (15, 4, 4), (1, 1, 1)],
)
def test_a_short_text_is_not_used_up_in_one_step(blocks, sequences, least):
    """A run of one step is all warmup and refused (E0411), so the batch that avoids it is chosen, and accepted."""
    choice = batch.global_batch_size("continue-pretrain", "lora", blocks, 7_000_000_000, 2_048, 2_048)
    assert (choice.value, choice.accepts) == (sequences, (least, 4_096))
