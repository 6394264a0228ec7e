"""Answers without thoughts, of a model that writes an empty thought before each (W0522)."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, with_key


@pytest.mark.parametrize(("base", "learned"), [("kto", True), ("lora-single", True), ("dpo-full", False)])
def test_the_empty_thought_of_an_answer_by_itself_is_learned(tmp_path: Path, base: str, learned: bool) -> None:
    """Both answers of a pair begin with it, so that the comparison of them says nothing of it."""
    recipe = with_key(with_key(BASES[base], "model.name", "Qwen/Qwen3-0.6B"), "hardware", {"gpu": "h100"})
    assert ("W0522" in codes(compiled(tmp_path, recipe, only_plan=True))) is learned
    off = with_key(recipe, "data.reasoning", "off")
    assert "W0522" not in codes(compiled(tmp_path, off, only_plan=True))
