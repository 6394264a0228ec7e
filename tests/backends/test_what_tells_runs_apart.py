"""A run continues only checkpoints of the same training: what is recorded, kept or loaded otherwise does not end it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key


def plan_of(folder: Path, key: str, value: object) -> str:
    """The constant of train.py that its checkpoints carry."""
    script = texts(good(folder, with_key(BASES["lora-single"], key, value)))["train.py"]
    (plan,) = re.findall(r'^PLAN = "(.+?)"', script, re.MULTILINE)
    return str(plan)


@pytest.mark.parametrize(
    ("key", "value", "continues"),
    [
        ("train.logging_steps", 3, True),
        ("train.keep_checkpoints", 7, True),
        ("train.save_every", 0.4, True),
        ("track.to", "wandb", True),
        ("hardware.cpu_cores", 2, True),  # fewer workers load the rows
        ("train.learning_rate", 1.1e-4, False),
        ("train.epochs", 2, False),
        ("recipe.seed", 7, False),
        ("train.eval_every", 0.25, False),  # which result is the best
        ("train.lora.rank", 64, False),
    ],
)
def test_only_what_changes_the_training_makes_another_run(
    tmp_path: Path, key: str, value: object, continues: bool
) -> None:
    usual = plan_of(tmp_path / "usual", "recipe.name", "case")
    assert (plan_of(tmp_path / "other", key, value) == usual) is continues


def test_what_a_run_with_other_numbers_and_one_begun_anew_cost_is_said(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, BASES["lora-ddp"]))
    assert "does not continue a run of the planned ones" in bundle["README.md"]
    assert "such a run deletes the checkpoints of the earlier one" in bundle["README.md"]
    assert "none: finished run anew" in bundle["train.py"]
