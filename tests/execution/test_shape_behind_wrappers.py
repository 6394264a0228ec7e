"""A loop of its own compares the shape of the model with the planned one, whatever wraps it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load

pytestmark = pytest.mark.executes

LIKE = with_key(with_key(BASES["lora-single"], "model.name", "own/chat-8b"), "model.like", "Qwen/Qwen3-8B")
QWEN3_8B = {"num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32}


def test_a_loop_finds_the_shape_behind_what_wraps_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DDP and DeepSpeed hold the model as their module, and DeepSpeed has a configuration of its own."""
    from torch import nn

    class Wrapping(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.module, self.config = model, {"zero_stage": 2}

    recipe = with_key(with_key(LIKE, "train.loop", "deepspeed"), "train.strategy", "zero2")
    recipe = with_key(with_key(recipe, "train.adaptation", "full"), "hardware.gpus_per_node", 8)
    for path, text in texts(good(tmp_path, recipe)).items():
        if path.endswith(".py") and "/" not in path:
            (tmp_path / path).write_text(text)
    facts = load(tmp_path / "preflight.py", monkeypatch).model_facts
    model = nn.Linear(2, 2)
    model.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(**QWEN3_8B))
    assert (
        facts(Wrapping(model))["shape"]
        == facts(model)["shape"]
        == "num_hidden_layers 36, hidden_size 4096, num_attention_heads 32"
    )
