"""Configurations that are damaged, of odd types or of huge numbers: each is read, or refused by name and soon."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from recipec.catalog.config_values import UnsupportedConfig
from recipec.catalog.configs import architecture_from_config, layer_keys
from recipec.catalog.local import local_model
from recipec.catalog.model_types import MODEL_TYPES
from tests.catalog.test_architecture_matches_transformers import VARIANTS, config_of
from tests.compiling import BASES, codes, compiled, with_key

GONE = object()
ODD = (GONE, None, "x", "12", [], ["x"], [1], [[1]], [None], -1, 0, 1, 3, 1.5, 1e30, 10**30, float("nan"), float("inf"))
ODD = (*ODD, {}, {"a": {"b": 1}}, True, False, {"rope_type": "yarn", "factor": 1e308})
ODD = (*ODD, {"rope_type": "yarn", "factor": float("nan")}, {"type": "yarn", "factor": -(10**400)})
ALSO = ("layer_types", "rope_scaling", "rope_parameters", "quantization_config", "attention_dropout", "sliding_window")
SEED, CASES = 0, 40  # configurations of each variant; 0.2 ms each


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_damaged_value_is_read_or_refused(variant: str) -> None:
    config, draw = config_of(variant), random.Random(f"{variant} {SEED}")
    for _ in range(CASES):
        read_or_refused(damaged(config, draw))


def damaged(config: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """The configuration with one odd value, or without a key."""
    key, value = draw.choice([*config, *ALSO]), draw.choice(ODD)
    changed = config | {key: value}
    return {name: value for name, value in changed.items() if value is not GONE}


def read_or_refused(config: dict[str, Any]) -> None:
    try:
        shape = architecture_from_config(config)
    except UnsupportedConfig as error:
        assert len(str(error)) < 600
        return
    assert float(shape.params) > 0
    assert layer_keys(shape) is not None


@pytest.mark.parametrize(
    ("variant", "change", "said"),
    [
        ("llama", {"hidden_size": 10**30}, "hidden_size is 1"),
        ("llama", {"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000, more than the 10000"),
        ("llama", {"model_type": "\ud800"}, r"model_type '\\ud800' is not one of"),
        ("llama", {"rope_scaling": {"type": "yarn", "factor": float("nan")}}, "context after YaRN is nan"),
        ("falcon_h1", {"num_hidden_layers": 10**30}, "num_hidden_layers is 1"),
        ("lfm2", {"block_ffn_dim_multiplier": "x"}, "block_ffn_dim_multiplier is 'x'"),
        ("lfm2", {"layer_types": None, "full_attn_idxs": 2}, "full_attn_idxs is 2, not a list"),
        ("llama4_text", {"moe_layers": "x"}, "moe_layers is 'x', not a list"),
        ("llama4_text", {"no_rope_layers": -1}, "no_rope_layers is -1, not a list"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
        ("llama4_text", {"moe_layers": ["x"]}, r"moe_layers is \['x'\], not a list of whole numbers"),
        ("llama4_text", {"moe_layers": [-1]}, r"moe_layers is \[-1\], not a list of whole numbers"),
        ("qwen3_moe", {"mlp_only_layers": [None]}, r"mlp_only_layers is \[None\], not a list of whole numbers"),
        ("qwen3_moe", {"mlp_only_layers": "x"}, "mlp_only_layers is 'x', not a list"),
        ("gemma4_text", {"per_layer_config": {"a": {}}}, "per_layer_config does not give"),
        ("granitemoehybrid", {"layer_types": [[1]] * 4}, "layer_types is not a list"),
        ("granitemoehybrid", {"layer_types": -1}, "layer_types is not a list"),
        ("nemotron_h", {"layers_block_type": [[1]]}, "layers_block_type is not a list"),
        (
            "llama",
            {"num_attention_heads": 8, "num_key_value_heads": 3},
            "num_key_value_heads is 3, which does not divide",
        ),
        ("llama", {"num_attention_heads": 8, "num_key_value_heads": 99}, "does not divide num_attention_heads .8."),
        (
            "qwen3_moe",
            {"num_experts": 4, "num_experts_per_tok": 5},
            "num_experts_per_tok is 5, more than the 4 experts",
        ),
    ],
)
def test_what_was_a_traceback_is_refused_by_name(variant: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedConfig, match=said):
        architecture_from_config(config_of(variant) | change)


def test_a_saved_configuration_counts_layers_with_two_digits() -> None:
    """transformers 5 saves "03", so that the names sort."""
    saved = {"per_layer_config": {"01": {"head_dim": 16}, "03": {"head_dim": 16}}}
    whole = architecture_from_config(config_of("gemma4_text") | saved).whole
    assert whole is not None and whole.head_dim == 16


@pytest.mark.parametrize("text", ["\ud800", "<end>\udfff"])
def test_half_of_a_character_in_a_tokenizer_is_refused(tmp_path: Path, text: str) -> None:
    folder(tmp_path, config_of("llama"))
    for key in ("chat_template", "eos_token"):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({key: text}))
        with pytest.raises(UnsupportedConfig, match="half of a character"):
            local_model(tmp_path)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_damaged_folder_ends_in_a_plan_or_an_error(tmp_path: Path, model_type: str) -> None:
    draw = random.Random(f"{model_type} {SEED}")
    for _ in range(3):
        folder(tmp_path / "model", damaged(config_of(model_type), draw))
        found = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", "./model"), only_plan=True)
        assert found.plan is not None or codes(found)


def test_the_error_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    folder(tmp_path / "model", config_of("llama") | {"hidden_size": "64"})
    (error,) = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", "./model")).diagnostics
    assert error.code == "E0306" and "hidden_size is '64'" in error.labels[0].message
    assert "if `./model/config.json` is damaged, copy it again or save the model again" in error.help


@pytest.mark.parametrize("change", [{"model_type": "mamba"}, {"attention_bias": True, "pretraining_tp": 2}])
def test_a_whole_file_is_not_called_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    """As that of a type which recipec does not know."""
    folder(tmp_path / "model", config_of("llama") | change)
    found = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", "./model"), only_plan=True).diagnostics
    assert not [line for error in found for line in error.help if "damaged" in line]


@pytest.mark.parametrize(
    ("file", "text"),
    [("config.json", "{"), ("config.json", "[]"), ("config.json", "{}"), ("tokenizer_config.json", "{")],
)
def test_the_file_that_may_be_damaged_is_named(tmp_path: Path, file: str, text: str) -> None:
    folder(tmp_path / "model", config_of("llama"))
    (tmp_path / "model" / file).write_text(text)
    (error,) = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", "./model")).diagnostics
    assert f"if `./model/{file}` is damaged, copy it again or save the model again" in error.help


def folder(path: Path, config: dict[str, Any]) -> None:
    """A model folder with a configuration and an empty tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text("{}")
