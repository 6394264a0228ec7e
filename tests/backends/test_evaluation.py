"""Every stage is measured by its own held-out rows, against the model that it began with."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.backends.methods import BACKENDS


def constant(script: str, name: str) -> str:
    """The code of a constant."""
    assigned = (node for node in ast.parse(script).body if isinstance(node, ast.Assign))
    return next(ast.unparse(node.value) for node in assigned if ast.unparse(node.targets[0]) == name)


@pytest.mark.parametrize("adaptation", ["lora", "full"])
def test_a_stage_is_compared_with_the_model_that_it_began_with(tmp_path: Path, adaptation: str) -> None:
    recipe = with_key(BASES["sft-dpo"], "model.name", "Qwen/Qwen2.5-0.5B")
    bundle = texts(good(tmp_path, with_key(recipe, "train.adaptation", adaptation)))
    assert "evaluate.py" not in bundle
    for folder, stage in (("stages/1-sft", "sft"), ("stages/2-dpo", "dpo")):
        evaluation, training = bundle[f"{folder}/evaluate.py"], bundle[f"{folder}/train.py"]
        assert constant(evaluation, "BASE") == constant(training, "MODEL")
        assert f"'data' / '{stage}' / 'test.jsonl'" in constant(evaluation, "ROWS")
        assert constant(evaluation, "RESULTS").endswith(f"'{stage}'")


def test_a_model_that_training_writes_is_measured_again_when_it_changes(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, BASES["sft-dpo"]))
    assert "st_mtime_ns" in bundle["stages/2-dpo/evaluate.py"]
    assert "st_mtime_ns" not in bundle["stages/1-sft/evaluate.py"]


def test_sums_that_favor_short_answers_are_said_to(tmp_path: Path) -> None:
    text = texts(good(tmp_path, BASES["dpo-full"]))["evaluate.py"]
    assert "short answers have the advantage" in text
    assert [name for name in BACKENDS["dpo"].measure.metrics if f'"{name}"' not in text] == []
