"""The rewards of stage grpo: the functions in functions/, each held to one finite number for an answer."""

import json
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets import Dataset
from transformers import TrainerState

from functions import rewards

SECONDS = 60  # that a call may take
CLAMP = 100.0  # a reward of 1e30 would make the gradient of its whole batch 0, and no log would say so
TRIED = 8  # rows that every function judges before a model is loaded
ANSWERS = ("", "42", "I do not know.")  # to each of them

Reward = Callable[..., list[float | None]]


def held(name: str, function: Callable, asks: tuple[str, ...], columns: tuple[str, ...] = ()) -> Reward:
    """The function as the trainer calls it: given what it asks for, and held to a number for each answer."""

    def reward(completions: list, **given) -> list[float | None]:
        given["completions"] = completions
        asked = {one: given[one] for one in asks}
        rows = [json.loads(row) for row in given["judged_by"]] if columns else []
        asked |= {column: [row[column] for row in rows] for column in columns}
        with within(SECONDS, name):
            found = list(function(**asked))
        if len(found) != len(completions):
            raise ValueError(f"{name} gave {len(found)} rewards to {len(completions)} answers.")
        return [number(value, f"{name}, answer {place} of {len(found)}") for place, value in enumerate(found, 1)]

    reward.__name__ = name  # by which TRL logs it
    return reward


def number(value: object, where: str) -> float | None:
    """A reward within CLAMP; None where the function leaves the answer out."""
    if value is None:
        return None
    if isinstance(value, str) or not math.isfinite(float(value)):
        raise ValueError(f"{where}: {value!r} is no finite number.")
    return max(-CLAMP, min(CLAMP, float(value)))


class Overdue(BaseException):
    """Passes through the `except Exception` of a call that tries again and again."""


@contextmanager
def within(seconds: int, name: str) -> Iterator[None]:
    """Stop a call that hangs: every process would wait for it."""

    def stop(*_: object) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # and every second after that
    try:
        yield
    except Overdue:
        raise TimeoutError(f"{name} took longer than {seconds} s.") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


REWARDS = [
    held("is_right", rewards.is_right, ("completions",), ("answer",)),
    held("is_short", rewards.is_short, ("completions",)),
]
WEIGHTS = [1.0, 0.1]


def check_rewards(rows: Dataset, prompts: int, file: Path) -> None:
    """Stop before a model is loaded: too few prompts for a generation, or one that cannot judge the first."""
    if len(rows) < prompts:
        raise SystemExit(f"{len(rows)} prompts are left, and one generation answers {prompts}. Lower the global batch.")
    first = rows.select(range(min(TRIED, len(rows))))
    for reward in REWARDS:
        for answer in ANSWERS:
            for place in range(len(first)):
                judged(reward, first.select([place]), answer, f"row {place + 1} of {file}")
            judged(reward, first, answer, f"the first {len(first)} rows of {file} together")


def judged(reward: Reward, rows: Dataset, answer: str, where: str) -> None:
    """Stop with the rows where a function raises, hangs, or gives no numbers, before a model is loaded."""
    given = {name: rows[name][:] for name in rows.column_names} | {"prompts": rows["prompt"][:]}
    given |= {"completion_ids": [[0] for _ in rows], "trainer_state": TrainerState()}
    given |= {"log_extra": lambda column, values: None, "log_metric": lambda name, value: None}
    try:
        reward([[{"role": "assistant", "content": answer}] for _ in rows], **given)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        said = f"The reward {reward.__name__} cannot judge {answer!r} for {where}: {what}"
        raise SystemExit(f'{said}. A completion is a list of messages, its text completion[-1]["content"].') from error
