"""A model whose shape is not known from the catalog is held to the planned one before step 1."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key

LIKE = with_key(with_key(BASES["lora-single"], "model.name", "own/chat-8b"), "model.like", "Qwen/Qwen3-8B")
QWEN3_8B = {"num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32}


def preflight(folder: Path, recipe: Tables) -> str:
    return texts(good(folder, recipe))["preflight.py"]


def named(script: str) -> dict[str, Any]:
    """PLANNED, and the functions that compare a run with it."""
    tree = ast.parse(script)
    wanted = [node for node in tree.body if getattr(node, "name", "") in ("shape_of", "compare_with_plan")]
    wanted += [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PLANNED"]
    names: dict[str, Any] = {"os": os, "PretrainedConfig": object}
    exec("\n".join(map(ast.unparse, wanted)), names)
    return names


def config(**sizes: int) -> Any:
    """A configuration whose language model stands within it."""
    return SimpleNamespace(get_text_config=lambda: SimpleNamespace(**(QWEN3_8B | sizes)))


@pytest.mark.parametrize("loop", [{}, {"train.loop": "torch"}])
def test_a_model_of_another_shape_than_like_is_refused(tmp_path: Path, loop: dict[str, str]) -> None:
    recipe = LIKE
    for key, value in loop.items():
        recipe = with_key(recipe, key, value)
    script = named(preflight(tmp_path, recipe))
    facts = script["PLANNED"] | {"shape": script["shape_of"](config())}
    script["compare_with_plan"](facts)
    with pytest.raises(SystemExit, match=r"num_hidden_layers 28, .*model\.like, Qwen/Qwen3-8B"):
        script["compare_with_plan"](facts | {"shape": script["shape_of"](config(num_hidden_layers=28))})


def test_facts_of_the_run_have_the_shape(tmp_path: Path) -> None:
    assert '"shape": shape_of(trainer.model.config),' in preflight(tmp_path, LIKE)
    loop = with_key(with_key(LIKE, "train.loop", "torch"), "train.adaptation", "full")
    assert '"shape": shape_of(getattr(model, "module", model).config),' in preflight(
        tmp_path, with_key(loop, "hardware.gpu", "b200")
    )


def test_a_model_of_the_catalog_is_not_asked(tmp_path: Path) -> None:
    assert "shape" not in named(preflight(tmp_path, BASES["lora-single"]))["PLANNED"]
