"""What `plan --exact` simulates: every base recipe but those with a reason that a user understands."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.simulate.notes import obstacle

REASONS = {
    "zero3-offload": "DeepSpeed's engine needs a device",
    **dict.fromkeys(
        ("on-policy-distill", "grpo", "rloo", "ppo", "tools", "served", "copied"), "answers that the model writes"
    ),
}


@pytest.mark.parametrize("name", sorted(BASES))
def test_base_recipes_are_simulated_or_say_why_not(tmp_path: Path, name: str) -> None:
    plan = compiled(tmp_path, BASES[name], only_plan=True).plan
    assert plan is not None
    against = {obstacle(each.layout, each.work) for each in plan.stages}
    if name not in REASONS:
        assert against == {None}
        return
    (reason,) = against
    assert reason is not None and REASONS[name] in reason


@pytest.mark.parametrize("key", ["train.compile", "train.loop", "train.fp8"])
def test_a_reason_is_a_key_of_the_recipe(tmp_path: Path, key: str) -> None:
    """FP8 compiles too, which is the first reason."""
    recipe = with_key(BASES["pretrain"], key, "accelerate" if key == "train.loop" else True)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan is not None
    reason = obstacle(plan.stages[0].layout, plan.stages[0].work)
    assert reason is not None and "an emitted train.py" not in reason
