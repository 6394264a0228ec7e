"""How often a checkpoint is written: what nobody misses, what the best evaluation is worth, and what failures cost."""

from __future__ import annotations

import pytest

from recipec.rules.checkpoints import save_every
from recipec.rules.intervals import saves_in

HOUR = 3600.0


def saves(training: float, each: float, *, gpus: int = 1, passes: float = 1.0, eval_every: float = 0.05) -> int:
    steps = 10_000
    share = save_every(eval_every, steps, training, each, gpus, passes).value
    return saves_in(eval_every, share, steps, 1)


def test_a_minute_in_all_is_not_missed() -> None:
    """A tiny run keeps the best of its evaluations: 20 checkpoints of two seconds in five minutes of training."""
    assert saves(300, 2.0) == 20
    assert saves(300, 20.0) == 3


def test_rows_that_are_seen_once_rarely_make_an_early_model_the_best() -> None:
    once, again = (saves(10 * HOUR, 120.0, passes=passes) for passes in (1.0, 3.0))
    assert once == 5 and again == 20


def test_many_gpus_save_as_often_as_failures_ask() -> None:
    """Young: sqrt(2 x 16 min x the time between failures); 512 GPUs fail every 99 hours."""
    between = 54 * 24 * HOUR * 16_384 / 419 / 512
    best = (2 * 960.0 * between) ** 0.5
    found = saves(33 * HOUR, 960.0, gpus=512, eval_every=0.01)
    assert found == pytest.approx(33 * HOUR / best, abs=1)


def test_checkpoints_before_the_last_save_most_of_a_run_that_fails() -> None:
    """As many as take 5% of the training, up to three: of 8 minutes each one in four hours, two in six, three in ten.
    Of 49 seconds one in half an hour, as more would be too close, and none in a quarter.
    Where there is none before the last, the last step writes none either.
    """
    assert [saves(hours * HOUR, 480.0, eval_every=0.01) for hours in (2, 4, 6, 10, 20)] == [0, 2, 3, 4, 4]
    assert [saves(hours * HOUR, 49.0, eval_every=0.01) for hours in (0.25, 0.5, 1)] == [0, 2, 4]


def test_checkpoints_before_the_last_meet_evaluations() -> None:
    """A DPO run of a 32B on 16 GPUs for four hours, evaluated ten times: one in the middle is 3% of it."""
    choice = save_every(0.1, 1844, 15_360, 459, 16, 1.0)
    assert choice.value == 0.5 and choice.because.startswith("after every 5 evaluations, 2 times in all")
