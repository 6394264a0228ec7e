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


def test_a_checkpoint_half_way_saves_half_of_a_run_that_fails() -> None:
    """Of an hour two of 49 seconds take less than 5%; of half an hour they would take more."""
    assert (saves(HOUR, 49.0), saves(HOUR / 2, 49.0)) == (2, 1)
