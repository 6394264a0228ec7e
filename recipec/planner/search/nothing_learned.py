"""When a stage learns nothing, although it runs to its end."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from recipec.axes import METHODS
from recipec.planner.search.sequences import training_sequences
from recipec.rules.core import Decision, Wish
from recipec.rules.evaluation import training_rows
from recipec.rules.intervals import generated

Decisions = Mapping[str, Decision]


def total_steps(wishes: Mapping[str, Wish], decisions: Decisions, batch: int) -> int:
    """Optimizer steps of the stage: every pass ends with a step of what is left, as in transformers 5.23's Trainer."""
    if "train.max_steps" in wishes:
        return wishes["train.max_steps"].value
    value = {id: decision.value for id, decision in decisions.items()}
    return ceil(value["epochs"] * ceil(training_sequences(value) / batch))


def learns_nothing(stage: str, steps: int, decisions: Decisions) -> bool:
    """Whether prompts fill no generation, or one step is all warmup, whose rate is 0 (E0411)."""
    return unfilled(stage, decisions) or only_warmup(steps, decisions)


def only_warmup(steps: int, decisions: Decisions) -> bool:
    """The trainer rounds the warmup up to whole steps, and the first one's rate is 0: a single step learns nothing."""
    return steps == 1 and decisions["warmup"].value > 0


def unfilled(stage: str, decisions: Decisions) -> bool:
    """Whether the prompts are fewer than one generation answers."""
    value = {id: decision.value for id, decision in decisions.items()}
    if not METHODS[stage].generates:
        return False
    return training_rows(value) * value.get("per_prompt", 1) < generated(value)
