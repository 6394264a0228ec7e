"""Errors that need no plan are told together, whether the rows or the keys alone show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

IDLE = {"alignment.undesirable_weight": 1.2, "train.orpo": {"epochs": 2}}
TOLD = ("`alignment.undesirable_weight` belongs to kto", "[train.orpo] is for a stage that does not run")


def changed(recipe: Tables, changes: dict[str, Any]) -> Tables:
    for key, value in changes.items():
        recipe = with_key(recipe, key, value)
    return recipe


@pytest.mark.parametrize(
    ("base", "key", "value", "said"),
    [
        ("dpo-full", "alignment.generation", {"server_gpus": 2}, "belongs to grpo"),
        ("dpo-full", "track", {"project": "pumps"}, "has no effect with `tensorboard`"),
        ("grpo", "alignment.generation", {"engine_tensor_parallel": 2}, 'without `engine = "vllm"`'),
    ],
)
def test_what_does_not_run_is_told_beside_other_errors(
    tmp_path: Path, base: str, key: str, value: Any, said: str
) -> None:
    """Where the rows decide the method: no engine is proposed to one that writes no answers."""
    recipe = changed(BASES[base], {"alignment.method": None, **IDLE, key: value})
    found = compiled(tmp_path, recipe).diagnostics
    titles = [each.title for each in found if each.code == "E0401"]
    assert len(titles) == 3 and {*TOLD} < {*titles} and any(said in title for title in titles), titles
    assert base == "grpo" or not [line for each in found for line in each.help if "vllm" in line]


def test_a_stage_of_another_method_for_the_rows_is_asked_for_by_its_method(tmp_path: Path) -> None:
    found = compiled(tmp_path, changed(BASES["dpo-full"], {"train.orpo": {"epochs": 2}})).diagnostics
    (help,) = (each.help for each in found if each.title == TOLD[1])
    assert help == ('remove [train.orpo], or set `alignment.method = "orpo"`',)
