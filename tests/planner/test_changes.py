"""The ways out lift what a recipe fixes, one value at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner.advice.changes import PINS, larger_gpu
from recipec.planner.outcome import KEYS
from recipec.planner.planner import contexts

# A fixed value with which nothing fits, and what is fixed beside it.
LIFTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "optimizer": ("adamw", {"adaptation": "full", "strategy": "single"}),
    "strategy": ("ddp", {"adaptation": "full"}),
    "activation_checkpointing": (False, {"adaptation": "lora"}),
    "micro_batch_size": (64, {"adaptation": "lora", "global_batch_size": 256}),
}


def test_whatever_fixes_a_part_of_the_layout_can_be_lifted() -> None:
    assert set(KEYS.values()) <= set(PINS)


@pytest.mark.parametrize("key", LIFTED)
def test_a_way_out_frees_one_value(tmp_path: Path, key: str) -> None:
    value, beside = LIFTED[key]
    model, gpus = ("Qwen/Qwen3-1.7B", 1) if key == "optimizer" else ("Qwen/Qwen3-8B", 4)
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "data.max_length", 8192)
    recipe = with_key(recipe, "goal.priority", "memory")
    recipe = with_key(recipe, "hardware", {"gpu": "a100-40gb" if gpus > 1 else "rtx-5090", "gpus_per_node": gpus})
    [finding] = [
        found
        for found in compiled(tmp_path, with_key(recipe, "train", {**beside, key: value})).diagnostics
        if found.code == "E0402"
    ]
    assert any(help.startswith(f"remove `train.{key}`:") for help in finding.help), finding.help
    assert compiled(tmp_path, with_key(recipe, "train", beside)).plan is not None


@pytest.mark.parametrize(("name", "makers"), [("a6000", {"nvidia"}), ("mi250x", {"amd"}), ("cpu", {"nvidia", "amd"})])
def test_a_larger_gpu_is_of_the_same_maker(tmp_path: Path, name: str, makers: set[str]) -> None:
    compilation = compiled(tmp_path, with_key(BASES["lora-single"], "hardware", {"gpu": name}), only_plan=True)
    assert compilation.recipe and compilation.facts
    [context] = contexts(compilation.recipe, compilation.facts)
    assert {changed.facts.gpu.vendor for _, changed in larger_gpu(context)} == makers
