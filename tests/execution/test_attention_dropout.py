"""Dropout of attention, which a model's config.json brings: TRL's switch leaves it on, and train.py turns it off."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from compiling import BASES, OF_METHOD, good, texts, with_key, write_data
from tiny_models import save

CONFIG = {
    "model_type": "llama",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "max_position_embeddings": 4096,
}


def options(folder: Path, method: str, **keys: object) -> dict[str, object]:
    """What train.py loads a local model with, whose attention drops a tenth."""
    write_data(folder)
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG | {"attention_dropout": 0.1}))
    recipe = with_key(BASES[OF_METHOD[method]], "model.name", "./model")
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    emitted = next(text for path, text in texts(good(folder, recipe)).items() if path.endswith("train.py"))
    found = emitted.split("model_init_kwargs=", 1)[1]
    return ast.literal_eval(found[: found.index("}") + 1])


@pytest.mark.parametrize("method", ["grpo", "rloo", "dpo"])
def test_it_is_off_where_the_trainer_switches_dropout_off(tmp_path: Path, method: str) -> None:
    assert options(tmp_path, method)["attention_dropout"] == 0.0


@pytest.mark.parametrize(("method", "dropout"), [("grpo", 0.1), ("sft", 0.0)])
def test_it_stays_where_dropout_is_on(tmp_path: Path, method: str, dropout: float) -> None:
    assert "attention_dropout" not in options(tmp_path, method, **{"train.lora": {"dropout": dropout}})


@pytest.mark.executes
def test_trl_leaves_it_on_and_the_argument_turns_it_off(tmp_path: Path) -> None:
    """Where the first half fails, TRL switches it off, too, and train.py need not."""
    import torch
    from transformers import AutoModelForCausalLM
    from trl.trainer.utils import disable_dropout_in_model

    save(tmp_path, 0, model_type="llama", attention_dropout=0.5)
    tokens = torch.arange(3, 9)[None]

    def drops(**more: float) -> bool:
        model = AutoModelForCausalLM.from_pretrained(tmp_path, **more).train()
        disable_dropout_in_model(model)
        return not model(tokens).logits.equal(model(tokens).logits)

    assert drops()
    assert not drops(attention_dropout=0.0)
