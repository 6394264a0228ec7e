"""Configurations as transformers saves them: its own classes write them to a folder, and recipec reads them there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recipec.catalog.config_values import UnsupportedConfig
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.local import local_model
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.text_parts import TEXT_PARTS
from tests.catalog.test_architecture_matches_transformers import VARIANTS, config_of
from tests.compiling import BASES, compiled, with_key

SIZES = {"hidden_size": "hidden_size", "num_layers": "num_hidden_layers", "max_position": "max_position_embeddings"}
SIZES |= {"num_heads": "num_attention_heads", "vocab_size": "vocab_size"}


@pytest.mark.executes
@pytest.mark.parametrize("model_type", [*MODEL_TYPES, *TEXT_PARTS])
def test_the_configuration_of_the_class_is_read_as_saved(tmp_path: Path, model_type: str) -> None:
    from transformers import CONFIG_MAPPING

    saved = CONFIG_MAPPING[model_type]()
    saved.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    shape, text = local_model(tmp_path / "model").architecture, saved.get_text_config()
    assert {ours: getattr(text, key) for ours, key in SIZES.items()} == {ours: getattr(shape, ours) for ours in SIZES}
    assert shape.params == parameters(text)
    found = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", "./model"), only_plan=True)
    assert {finding.code for finding in found.diagnostics} <= {"E0402", "W0504", "W0517"}  # it may not fit


@pytest.mark.executes
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_key_that_is_left_out_is_refused_or_that_of_the_class(variant: str) -> None:
    from transformers import CONFIG_MAPPING

    config = config_of(variant)
    for key in ("num_key_value_heads", "head_dim", "tie_word_embeddings", "attention_bias", "sliding_window"):
        less: dict[str, Any] = {name: value for name, value in config.items() if name != key}
        try:
            ours = architecture_from_config(less)
        except UnsupportedConfig:
            continue
        theirs = CONFIG_MAPPING[config["model_type"]].from_dict(json.loads(json.dumps(less)))
        assert (key, ours.params) == (key, parameters(theirs))


def parameters(config: Any) -> int:
    """Of the real model, on the meta device."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(config).parameters())
