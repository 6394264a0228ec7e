"""The rewards of stage ppo: the scores of a model, each held to one finite number for an answer."""

import math
from collections.abc import Callable
from pathlib import Path

from datasets import Dataset
from transformers import TrainerState

from judge import Judge

BUNDLE = Path(__file__).resolve().parents[2]
JUDGE = BUNDLE / "outputs" / "reward" / "merged"
CLAMP = 100.0  # a reward of 1e30 would make the gradient of its whole batch 0, and no log would say so
TRIED = 8  # rows that are judged before the model that learns is loaded
ANSWERS = ("", "42", "I do not know.")  # to each of them

Reward = Callable[..., list[float | None]]


def scored(name: str, judge: Judge) -> Reward:
    """The scores of a model as the trainer asks for them: finite, and within CLAMP."""

    def reward(completions: list, prompts: list, **_: object) -> list[float | None]:
        found = judge.scores(prompts, completions)
        if not all(map(math.isfinite, found)):
            raise ValueError(f"{name} gave an answer a score that is no finite number.")
        return [max(-CLAMP, min(CLAMP, score)) for score in found]

    reward.__name__ = name  # by which TRL logs it
    return reward


REWARDS = [
    scored("reward_model", Judge(str(JUDGE))),
]
WEIGHTS = [1.0]


def check_rewards(rows: Dataset, prompts: int, file: Path) -> None:
    """Stop before a model is loaded where prompts are too few, or a reward cannot judge the first of them."""
    if len(rows) < prompts:
        raise SystemExit(f"{len(rows)} prompts are left, and one generation answers {prompts}. Lower the global batch.")
    first = rows.select(range(min(TRIED, len(rows))))
    for reward in REWARDS:
        tried = []
        for place in range(len(first)):
            one, where = first.select([place]), f"row {place + 1} of {file}"
            tried.append([judged(reward, one, answer, where)[0] for answer in ANSWERS])
        for answer in ANSWERS:
            judged(reward, first, answer, f"the first {len(first)} rows of {file} together")
        check_differs(reward, tried)


def check_differs(reward: Reward, tried: list[list[float | None]]) -> None:
    """Nothing is learned where all answers to a prompt have one value: stop if the model gives it."""
    if any(len(set(values)) > 1 for values in tried):
        return
    said = (
        f"{reward.__name__} gives one value to all {len(tried[0])} answers that were tried for a prompt "
        f"({tried[0][0]} for the first prompt), and nothing is learned from that."
    )
    raise SystemExit(f"{said} Name a reward model whose score head is trained.")


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
        raise SystemExit(said) from error
