"""Steps and the answers that they learn from, and how often a run evaluates and saves: as the Trainer, or the bundle,
rounds shares of the run.

`taught` are the steps that learn from one generation of answers, which no interval cuts; 1 where rows have the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any


def steps_taught(value: Mapping[str, Any]) -> int:
    """The steps that learn from one generation of answers, of the decisions of a stage."""
    return value.get("updates", 1) * value.get("answer_passes", 1)


def generated(value: Mapping[str, Any]) -> int:
    """The answers of one generation."""
    return value["global_batch_size"] * value.get("updates", 1)


def answers_in(prompts: int, value: Mapping[str, Any]) -> int:
    """The answers of whole generations, as often as they are learned from: prompts that fill none are left out."""
    each = generated(value)
    return max(1, prompts * value.get("per_prompt", 1) // each) * each * value.get("answer_passes", 1)


def times_in(share: float, total_steps: int, taught: int) -> int:
    """How often something happens that has this share of the steps as its interval: the last step is one of them."""
    return ceil(total_steps / steps_between(share, total_steps, taught))


def steps_between(share: float, total_steps: int, taught: int) -> int:
    """The steps from one evaluation to the next: whole generations."""
    return -(-ceil(share * total_steps) // taught) * taught


def steps_apart(eval_every: float, save_every: float, total_steps: int, taught: int) -> tuple[int, int]:
    """Steps from one evaluation to the next, and from one checkpoint to the next: the nearest multiple, or all."""
    each = steps_between(eval_every, total_steps, taught)
    evaluations = total_steps / each
    return each, (ceil(evaluations) if save_every >= 1 else max(1, round(save_every * evaluations))) * each


def saving_share(eval_every: float, evaluations: int, total_steps: int, taught: int) -> float:
    """The share of the steps after which so many evaluations were made: of few steps that is not so many times
    `eval_every`, which is rounded up to whole ones."""
    each = steps_between(eval_every, total_steps, taught)
    nominal = round(evaluations * eval_every, 10)
    if nominal <= 1 and steps_apart(eval_every, nominal, total_steps, taught)[1] == evaluations * each:
        return nominal
    return min(1.0, float(f"{evaluations * each / total_steps:.6g}"))


def divided(save_every: float, eval_every: float) -> float:
    """The share of the steps nearest below `eval_every` that divides `save_every`, in few digits where one has them."""
    least = max(1, ceil(save_every / eval_every - 1e-9))
    shares = [save_every / times for times in range(least, least + 10)]
    return next((share for share in shares if abs(round(share, 4) - share) < 1e-9), shares[0])


def saves_in(eval_every: float, save_every: float, total_steps: int, taught: int) -> int:
    """How often a checkpoint is written, at the last step too; 0 where only that one would write one."""
    times = ceil(total_steps / steps_apart(eval_every, save_every, total_steps, taught)[1])
    return times if times > 1 else 0
