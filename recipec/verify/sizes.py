"""How long the trainings of a verification are, and how large their batches: fewer than planned, with whole ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recipec.verify.bundle import Bundle, BundleStage

RUN_STEPS = 6
LEARN_STEPS = 24
LEARN_ADAPTED = 36  # steps of an adapter: at a rate at which every shape learns, some have half the loss left after 24
# Steps of an adapter on weights that learned other rows by heart in full: these are large, and it moves them little
# (SFT behind continued pretraining of every weight: 55% of the first loss was left after 24).
LEARN_AFTER_FULL = 48
LEARN_FROM_REWARDS = 48  # steps: rewards of sampled answers say less than labels
LEARN_GENERATIONS = 12  # whose rewards are compared where several steps share one
CHECKPOINT = 12  # at the learn level; two evaluations are too few for early stopping
RESUME_BATCHES = 3.5  # of an epoch, 4 steps, in the trainings that are compared: the last batch is not full
RESUME_STEPS = 12  # 3 epochs
RESUME_CHECKPOINT = 6  # in the middle of the second epoch
RESUME_DEATH = 7  # the step at which the process is killed: after RESUME_CHECKPOINT, before the end
# Of the learning rate, where the KL of all tokens of an answer is in its reward, or values are learned beside it: at
# the whole rate PPO's reward rose for 19 steps and fell then (two seeds; with a quarter it rises five times its bound).
ANSWER_RATE = 0.25
RANDOM_LEARNING_RATE = 2e-2  # for weights of the usual spread: smaller than a stand-in's, they learn slower
_FACTORS = {"paged-adamw-8bit": 0.6, "lion": 0.3, "lion-8bit": 0.3, "sgd": 100.0}  # beside AdamW


def steps_to_learn(stage: BundleStage, stages: Sequence[BundleStage]) -> int:
    """Steps in which a stage of a bundle's learns a batch by heart."""
    before = stages[: stages.index(stage)]
    on_trained = not stage.adapts.trains_all and any(other.adapts.trains_all for other in before)
    if on_trained:
        return LEARN_AFTER_FULL
    return LEARN_STEPS if stage.adapts.trains_all else LEARN_ADAPTED


def whole_generations(stage: BundleStage, steps: int) -> int:
    """So many steps, or more, that none of them is left of the last generation: no checkpoint has answers that wait."""
    updates = stage.decisions.get("updates", 1)
    return -(-steps // updates) * updates


def resuming_steps(stage: BundleStage) -> tuple[int, int, int]:
    """Of the trainings that are compared: the step of the checkpoint, that of the death behind it, and the last."""
    saved = whole_generations(stage, RESUME_CHECKPOINT)
    return saved, saved + RESUME_DEATH - RESUME_CHECKPOINT, saved * RESUME_STEPS // RESUME_CHECKPOINT


def learning_values(stage: BundleStage, save_every: int = CHECKPOINT) -> dict[str, Any]:
    """Trainer arguments of a stage at the learn level, in place of the plan's."""
    save_every = whole_generations(stage, save_every)
    rate = RANDOM_LEARNING_RATE if stage.method.random_weights else stage.adapts.toy_learning_rate
    rate *= ANSWER_RATE if stage.method.weighs_whole_answers or _learns_values(stage) else 1.0
    values = {
        "learning_rate": rate * stage.variant.toy_rate * _FACTORS.get(stage.choice["optimizer"], 1.0),
        "warmup_steps": 0,
        "eval_steps": save_every,
    }
    return values | ({"save_steps": save_every} if stage.saves else {})


def _learns_values(stage: BundleStage) -> bool:
    return stage.method.generates and stage.method.has_value_head


def resuming_patches(bundle: Bundle, stage: BundleStage, ranks: int) -> dict[str, Any]:
    """What a training that is stopped and resumed has else: several batches, and the last weights for its result.

    Checkpoints are also written where the plan has none: bundles can go on from them.
    """
    script, rows = f"{stage.folder}train.py", _rows_of_epoch(bundle, stage, ranks)
    values = learning_values(stage, RESUME_CHECKPOINT) | {"load_best_model_at_end": False, "save_strategy": "steps"}
    values["save_steps"] = values["eval_steps"]
    return {"script_arguments": {script: values}, "first_rows": {script: rows}}


def _rows_of_epoch(bundle: Bundle, stage: BundleStage, ranks: int) -> int:
    """Rows of a comparison's epoch of 4 steps: prompts of whole generations where the model answers them."""
    batch = batch_of(bundle, stage, ranks)
    if not stage.method.generates:
        return rows_of(RESUME_BATCHES, batch)
    updates = stage.decisions.get("updates", 1)
    prompts = batch * updates // group_of(bundle, stage, ranks)
    return prompts * max(1, math.ceil(RESUME_BATCHES) // updates)


def group_of(bundle: Bundle, stage: BundleStage, ranks: int) -> int:
    """Answers to a prompt here: as many as planned, or as a small batch can hold in whole groups."""
    answers = batch_of(bundle, stage, ranks) * stage.decisions.get("updates", 1)
    return max(size for size in range(1, stage.decisions.get("per_prompt", 1) + 1) if answers % size == 0)


def rows_of(batches: float, batch: int) -> int:
    """So many rows that the last of these batches is there."""
    return math.ceil(batches * batch)


MAX_SEQUENCES_PER_STEP = 32  # per rank, micro batch x accumulation


def most_accumulated(bundle: Bundle) -> int:
    """The micro steps of a step here at most: one number for all stages."""
    return max(1, MAX_SEQUENCES_PER_STEP // max(stage.choice["micro_batch_size"] for stage in bundle.stages))


def batch_of(bundle: Bundle, stage: BundleStage, ranks: int) -> int:
    """The global batch of a stage here, in what its micro batch counts."""
    accumulation = min(stage.choice["gradient_accumulation"], most_accumulated(bundle))
    return stage.choice["micro_batch_size"] * accumulation * min(ranks, stage.choice["world_size"])
