"""Label smoothing needs all logits at once, which no plan counts: the bytes are told (W0563)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.catalog.models import model
from recipec.units import gib

SMOOTH = {"label_smoothing_factor": 0.1}


def told(folder: Path, keys: dict[str, Any], path: str = "train.arguments", value: Any = SMOOTH) -> tuple[Any, Any]:
    recipe = with_key(BASES["lora-single"], path, value)
    for key, each in keys.items():
        recipe = with_key(recipe, key, each)
    found = compiled(folder, recipe)
    return found.plan.stages[0], [each for each in found.diagnostics if each.code == "W0563"]


@pytest.mark.parametrize(
    ("keys", "each"),
    [
        ({"hardware.gpu": "h100"}, 4),
        ({"hardware.gpu": "h100", "train.micro_batch_size": 2}, 4),
        ({"hardware.gpu": "h100", "hardware.gpus_per_node": 2, "train.strategy": "fsdp"}, 2),
        ({"hardware.gpu": "h100", "hardware.gpus_per_node": 2, "train.strategy": "zero2"}, 2),
    ],
)
@pytest.mark.parametrize("path", ["train.arguments", "train.sft.arguments"])
def test_all_logits_of_a_micro_batch_are_told(tmp_path: Path, keys: dict[str, Any], each: int, path: str) -> None:
    stage, (found,) = told(tmp_path, keys, path)
    vocabulary = model(stage.decisions["model"].value).architecture.vocab_size
    logits = stage.layout.micro_batch * stage.decisions["max_length"].value * vocabulary
    assert f"at least {gib(4 * each * logits)} per GPU" in found.labels[0].message
    assert "arguments" in found.labels[0].place.text.splitlines()[found.labels[0].place.span.line - 1]


def test_nothing_is_told_where_no_label_is_smoothed(tmp_path: Path) -> None:
    assert not told(tmp_path, {}, value={"label_smoothing_factor": 0.0})[1]
