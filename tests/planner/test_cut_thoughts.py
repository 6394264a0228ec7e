"""Few tokens for the answers of a model that thinks before it answers (W0525)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, with_key

CODE = "W0525"


def warned(folder: Path, base: str, model: str, **keys: Any) -> list[Any]:
    recipe = with_key(with_key(BASES[base], "model.name", model), "hardware", {"gpu": "b200", "gpus_per_node": 8})
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    found = compiled(folder, recipe, only_plan=True)
    assert not [code for code in codes(found) if code.startswith("E")], found.diagnostics
    return [one for one in found.diagnostics if one.code == CODE]


@pytest.mark.parametrize("base", ["grpo", "rloo", "ppo"])
def test_a_model_of_two_modes_thinks_unless_that_is_off(tmp_path: Path, base: str) -> None:
    (found,) = warned(tmp_path, base, "Qwen/Qwen3-4B")
    assert len(found.help) == 2 and 'reasoning = "off"' in found.help[1]
    assert ("masked" in found.notes[0]) is (base == "grpo")
    assert not warned(tmp_path, base, "Qwen/Qwen3-4B", data__reasoning="off")


def test_a_student_is_said_to_learn_thoughts_alone(tmp_path: Path) -> None:
    (found,) = warned(tmp_path, "on-policy-distill", "Qwen/Qwen3-4B", alignment__teacher="Qwen/Qwen3-8B")
    assert "never what follows it" in found.notes[0] and "cut answers earn" not in found.notes[0]


def test_a_student_without_thoughts_learns_those_of_its_teacher(tmp_path: Path) -> None:
    (found,) = warned(tmp_path, "on-policy-distill", "Qwen/Qwen3-4B-Base", alignment__teacher="Qwen/Qwen3-8B")
    assert "teacher Qwen/Qwen3-8B thinks" in found.title and "without a thought" in found.help[0]
    plain = "Qwen/Qwen3-30B-A3B-Instruct-2507"
    assert not warned(tmp_path, "on-policy-distill", "Qwen/Qwen3-4B-Base", alignment__teacher=plain)


def test_answers_long_enough_for_a_thought_are_not_warned_about(tmp_path: Path) -> None:
    assert warned(tmp_path, "grpo", "Qwen/Qwen3-4B", alignment__generation={"max_new_tokens": 2047})
    assert not warned(tmp_path, "grpo", "Qwen/Qwen3-4B", alignment__generation={"max_new_tokens": 4096})


def test_a_variant_that_masks_nothing_is_not_said_to(tmp_path: Path) -> None:
    (found,) = warned(tmp_path, "grpo", "Qwen/Qwen3-4B", alignment__variant="dr_grpo")
    assert "masked" not in found.notes[0]


def test_a_model_that_only_thinks_has_no_mode_to_choose(tmp_path: Path) -> None:
    (found,) = warned(tmp_path, "grpo", "Qwen/Qwen3-4B-Thinking-2507")
    assert len(found.help) == 1


@pytest.mark.parametrize("model", ["Qwen/Qwen3-4B-Base", "Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen2.5-7B-Instruct"])
def test_models_that_do_not_think_are_not_warned_about(tmp_path: Path, model: str) -> None:
    assert not warned(tmp_path, "grpo", model)


def test_another_template_asks_for_no_thought(tmp_path: Path) -> None:
    assert not warned(tmp_path, "grpo", "Qwen/Qwen3-4B", data__template="chatml")


def test_who_learns_from_answers_that_are_given_is_not_warned(tmp_path: Path) -> None:
    assert not warned(tmp_path, "dpo-full", "Qwen/Qwen3-4B")
