"""What train.py says of answers that are written in training: the mode of the chat template, the credit of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key


def thinking(base: str, said: str) -> Tables:
    return with_key(with_key(BASES[base], "model.name", "Qwen/Qwen3-1.7B"), "data.reasoning", said)


@pytest.mark.parametrize(
    ("base", "told_by"),
    [("grpo", "train.py"), ("rloo", "train.py"), ("ppo", "rows.py"), ("on-policy-distill", "train.py")],
)
def test_prompts_may_ask_for_the_mode_without_thinking(tmp_path: Path, base: str, told_by: str) -> None:
    """Its configuration or rows.py tells the trainer; rows, which rewards are given, have no such column."""
    recipe = thinking(base, "off")
    recipe = with_key(recipe, "alignment.teacher", "Qwen/Qwen3-8B") if "teacher" in recipe["alignment"] else recipe
    files = texts(good(tmp_path, recipe))
    assert '"enable_thinking": False' in files[told_by] and '"enable_thinking": False' in files["rows.py"]
    assert "add_column" not in files["train.py"]


@pytest.mark.parametrize("said", ["keep", "strip", "template"])
def test_prompts_have_no_thoughts_to_keep_or_to_take_out(tmp_path: Path, said: str) -> None:
    assert codes(compiled(tmp_path, thinking("grpo", said))) == ["E0401"]


@pytest.mark.parametrize(("longest", "credit"), [(64, 0.95), (499, 0.95), (500, 1.0), (2_048, 1.0)])
def test_long_answers_are_credited_whole(tmp_path: Path, longest: int, credit: float) -> None:
    recipe = with_key(BASES["ppo"], "alignment.generation", {"max_new_tokens": longest})
    assert f"gae_lambda={credit}," in texts(good(tmp_path, recipe))["train.py"]
