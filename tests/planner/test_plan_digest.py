"""What makes a training another one: the digest that its checkpoints carry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

OTHER = {  # what changes train.py's training, by recipe
    ("lora-single", "train.learning_rate"): 3e-4,
    ("lora-single", "model.revision"): "abcdef0",
    ("lora-single", "train.arguments"): {"neftune_noise_alpha": 5.0},
    ("distill", "alignment.teacher"): "Qwen/Qwen3-4B",
    ("distill", "alignment.temperature"): 2.0,
    ("on-policy-distill", "alignment.teacher"): "Qwen/Qwen3-4B",
    ("on-policy-distill", "alignment.beta"): 0.5,
}
SAME = {("lora-single", "recipe.description"): "Another text.", ("lora-single", "registry.tags"): ["a"]}


def plans(tmp_path: Path, recipe) -> dict[str, str]:
    """train.py's path -> the digest in it."""
    files = texts(good(tmp_path, recipe))
    return {path: re.search(r'^PLAN = "([^"]+)"', text, re.M)[1] for path, text in files.items() if "PLAN =" in text}


@pytest.mark.parametrize(("base", "key"), OTHER)
def test_another_training_has_another_digest(tmp_path: Path, base: str, key: str) -> None:
    (before,) = plans(tmp_path, BASES[base]).values()
    (after,) = plans(tmp_path, with_key(BASES[base], key, OTHER[base, key])).values()
    assert before != after


@pytest.mark.parametrize(("base", "key"), SAME)
def test_what_is_only_told_changes_none(tmp_path: Path, base: str, key: str) -> None:
    assert plans(tmp_path, BASES[base]) == plans(tmp_path, with_key(BASES[base], key, SAME[base, key]))


def test_a_later_stage_does_not_change_the_one_before_it(tmp_path: Path) -> None:
    before = plans(tmp_path, BASES["sft-dpo"])
    after = plans(tmp_path, with_key(BASES["sft-dpo"], "train", {"dpo": {"learning_rate": 1e-6}}))
    changed = [path for path in before if before[path] != after[path]]
    assert len(before) == 2 and changed == ["stages/2-dpo/train.py"]
