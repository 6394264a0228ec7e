"""What makes a training another one: the digest that its checkpoints carry."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from compiling import BASES, compiled, texts, with_key
from msgspec.structs import replace

from recipec.planner.document import trains
from recipec.rules.core import Decision

OTHER = {  # what changes train.py's training, by recipe
    ("lora-single", "train.learning_rate"): 3e-4,
    ("lora-single", "model.revision"): "abcdef0",
    ("lora-single", "train.arguments"): {"neftune_noise_alpha": 5.0},
    ("distill", "alignment.teacher"): "Qwen/Qwen3-4B",
    ("distill", "alignment.temperature"): 2.0,
    ("on-policy-distill", "alignment.teacher"): "Qwen/Qwen3-4B",
    ("on-policy-distill", "alignment.beta"): 0.5,
}
SAME = {
    ("lora-single", "recipe.description"): "Another text.",
    ("lora-single", "registry.tags"): ["a"],
    ("lora-single", "train.fp8"): False,  # these are what a recipe without them gets
    ("lora-single", "train.compile"): False,
    ("lora-single", "train.loop"): "trainer",
    ("lora-single", "model.trust_remote_code"): False,
    ("lora-single", "data.incomplete"): "refuse",
    ("lora-single", "recipe.seed"): 42,
}


@cache
def scripts(folder: Path, recipe: str) -> dict[str, str] | None:
    """The files of a recipe in JSON; None where none are made."""
    return texts(compiled(folder, json.loads(recipe))) or None


def plans(tmp_path: Path, recipe) -> dict[str, str]:
    """train.py's path -> the digest in it."""
    files = scripts(tmp_path, json.dumps(recipe))
    assert files
    return {path: re.search(r'^PLAN = "([^"]+)"', text, re.M)[1] for path, text in files.items() if "PLAN =" in text}


@pytest.mark.parametrize(("base", "key"), OTHER)
def test_another_training_has_another_digest(tmp_path: Path, base: str, key: str) -> None:
    (before,) = plans(tmp_path, BASES[base]).values()
    (after,) = plans(tmp_path, with_key(BASES[base], key, OTHER[base, key])).values()
    assert before != after


@pytest.mark.parametrize(("base", "key"), SAME)
def test_what_is_only_told_or_stated_as_it_is_changes_none(tmp_path: Path, base: str, key: str) -> None:
    assert plans(tmp_path, BASES[base]) == plans(tmp_path, with_key(BASES[base], key, SAME[base, key]))


def test_a_later_stage_does_not_change_the_one_before_it(tmp_path: Path) -> None:
    before = plans(tmp_path, BASES["sft-dpo"])
    after = plans(tmp_path, with_key(BASES["sft-dpo"], "train", {"dpo": {"learning_rate": 1e-6}}))
    changed = [path for path in before if before[path] != after[path]]
    assert len(before) == 2 and changed == ["stages/2-dpo/train.py"]


THINKS = {"grpo": {}, "ppo": {}, "on-policy-distill": {"alignment.teacher": "Qwen/Qwen3-8B"}}


@pytest.mark.parametrize("base", THINKS)
def test_answers_without_thoughts_are_another_training(tmp_path: Path, base: str) -> None:
    recipe = with_key(BASES[base], "model.name", "Qwen/Qwen3-0.6B")
    for key, value in THINKS[base].items():
        recipe = with_key(recipe, key, value)
    quiet = with_key(recipe, "data.reasoning", "off")
    assert [*plans(tmp_path, recipe).values()][-1] != [*plans(tmp_path, quiet).values()][-1]


# Keys of all kinds: where the code of train.py is another one, the digest is too.
KEYS = {
    "data.max_length": 300,
    "data.overflow": "truncate",
    "data.reasoning": "off",
    "data.template": "chatml",
    "goal.priority": "memory",
    "model.name": "Qwen/Qwen3-0.6B",
    "recipe.seed": 7,
    "train.activation_checkpointing": True,
    "train.attention": "eager",
    "train.epochs": 4,
    "train.eval_every": 0.25,
    "train.global_batch_size": 64,
    "train.max_grad_norm": 0.5,
    "train.max_steps": 321,
    "train.optimizer": "adamw-8bit",
    "train.packing": False,
    "train.precision": "fp32",
    "train.sampling": "random",
    "train.schedule": "linear",
    "train.warmup": 0.2,
    "train.weight_decay": 0.07,
}
UNTRAINED = {"train.save_every": 0.4, "train.logging_steps": 3, "track.to": "wandb", "train.keep_checkpoints": 5}


def code(tmp_path: Path, recipe) -> str | None:
    """train.py without comments and without what names the plan or its steps; None where none is made."""
    files = scripts(tmp_path, json.dumps(recipe))
    if not files:
        return None
    script = next(text for path, text in files.items() if path.endswith("train.py"))
    lines = (line.partition("  #")[0] for line in script.splitlines())
    return "\n".join(line for line in lines if not line.startswith(("PLAN =", "STEPS =")))


@pytest.mark.parametrize("base", ["lora-single", "dpo-full", "grpo", "kto", "text"])
def test_where_the_code_of_a_training_changes_the_digest_does(tmp_path: Path, base: str) -> None:
    before, digest = code(tmp_path, BASES[base]), plans(tmp_path, BASES[base])
    changed = []
    for key, value in KEYS.items():
        recipe = with_key(BASES[base], key, value)
        if code(tmp_path, recipe) not in (None, before):
            changed.append(key)
            assert plans(tmp_path, recipe) != digest, key
    assert len(changed) > len(KEYS) / 3
    for key, value in UNTRAINED.items():
        assert plans(tmp_path, with_key(BASES[base], key, value)) == digest, key


def test_a_decision_that_nobody_thought_of_counts() -> None:
    fresh = Decision("fresh", 1, "as a new fact is", origin="recipe")
    assert trains(fresh) and not trains(replace(fresh, id="examples"))
    assert not trains(replace(fresh, rule="TRACK-001"))
