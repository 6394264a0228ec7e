"""The rewards of stage rloo: the functions in functions/, each held to one finite number for an answer."""

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
    """Stop before a model is loaded where prompts are too few, or a reward cannot judge the first of them."""
    if len(rows) < prompts:
        raise SystemExit(f"{len(rows)} prompts are left, and one generation answers {prompts}. Lower the global batch.")
    first = rows.select(range(min(TRIED, len(rows))))
    for reward in REWARDS:
        tried = []
        for place, row in enumerate(first):
            one, where = first.select([place]), f"row {place + 1} of {file}"
            tried.append([judged(reward, one, answer, where)[0] for answer in (*ANSWERS, *right_answers(row))])
        for answer in ANSWERS:
            judged(reward, first, answer, f"the first {len(first)} rows of {file} together")
        check_differs(reward, tried)


def check_differs(reward: Reward, tried: list[list[float | None]]) -> None:
    """Nothing is learned where all answers to a prompt have one value: warn if a function gives it."""
    if any(len(set(values)) > 1 for values in tried):
        return
    said = (
        f"{reward.__name__} gives one value to all {len(tried[0])} answers that were tried for a prompt "
        f"({tried[0][0]} for the first prompt), and nothing is learned from that."
    )
    print(f"Warning: {said} Correct the function, or watch reward_std.", flush=True)


def right_answers(row: dict) -> list[str]:
    """What a row holds for the functions, as a model would answer it: one of these may be right."""
    held = [str(value) for value in json.loads(row["judged_by"]).values() if isinstance(value, str | int | float)]
    return [said for value in held for said in (value, r"\boxed{" + value + "}", f"<answer>{value}</answer>")]


def judged(reward: Reward, rows: Dataset, answer: str, where: str) -> list[float | None]:
    """The rewards of an answer to each row; stops where a function raises, hangs, or gives no numbers."""
    given = {name: rows[name][:] for name in rows.column_names} | {"prompts": rows["prompt"][:]}
    given |= {"completion_ids": [[0] for _ in rows], "trainer_state": TrainerState()}
    given |= {"log_extra": lambda column, values: None, "log_metric": lambda name, value: None}
    try:
        return reward([[{"role": "assistant", "content": answer}] for _ in rows], **given)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}".rstrip(".")
        said = f"The reward {reward.__name__} cannot judge {answer!r} for {where}: {what}."
        raise SystemExit(f'{said} A completion is a list of messages, its text completion[-1]["content"].') from error
