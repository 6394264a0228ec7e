"""Checkpoints that hold a vision tower beside the language model, and how the latter is taken out of them.

TRL 1.16 loads the class that a checkpoint's config.json names (trainer/utils.py `create_model_from_path`): the whole of
it, whose vision tower text gives no gradient. transformers 5.23 loads the text part alone from its own configuration
and with these names. Tried 2026-11-23 on tiny checkpoints, weight by weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from recipec.catalog.config_values import UnsupportedConfig

# model_type of the checkpoint -> how its language model's parameters begin, and how they do in the text part alone;
# nothing where transformers renames them itself.
TEXT_PARTS = {
    "gemma3": ("language_model.", ""),
    "gemma4": ("model.language_model.", "model."),
    "gemma4_unified": ("model.language_model.", "model."),
    "llama4": (),
    "mistral3": ("language_model.", ""),
    "qwen3_5": (),
}
_TEXT_TYPES = {  # model_type of the checkpoint -> that of its language model, where its text_config names none
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen3_5": "qwen3_5_text",
}
_GEMMA = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 262144,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
_MISTRAL = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": None,
    "vocab_size": 32000,
    "max_position_embeddings": 131072,
}
# model_type of the language model -> what transformers 5.23 takes for what text_config does not have: an older one left
# out the values of the class when it wrote the file.
_CLASS_SIZES: dict[str, Mapping[str, Any]] = {
    "gemma3_text": {**_GEMMA, "num_hidden_layers": 26, "vocab_size": 262208},
    "gemma4_text": _GEMMA,
    "gemma4_unified_text": {**_GEMMA, "max_position_embeddings": 262144},
    "llama4_text": {
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "vocab_size": 202048,
        "max_position_embeddings": 131072,
    },
    "mistral": _MISTRAL,
    "ministral3": {
        **_MISTRAL,
        "num_hidden_layers": 34,
        "head_dim": 128,
        "vocab_size": 131072,
        "max_position_embeddings": 262144,
    },
    "qwen3_5_text": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "vocab_size": 248320,
        "max_position_embeddings": 32768,
    },
}


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the language model: `config` itself, or the part of it in a checkpoint that holds more."""
    if not holds_more(config):
        return config
    checkpoint, text = config["model_type"], config.get("text_config")
    if not isinstance(text, Mapping):
        raise UnsupportedConfig(f"the {checkpoint} configuration has no table text_config", ("text_config",))
    if config.get("quantization_config"):
        raise UnsupportedConfig("its weights are quantized: recipec takes no language model out of such a checkpoint")
    model_type = str(text.get("model_type") or _TEXT_TYPES[checkpoint])
    return {**_CLASS_SIZES.get(model_type, {}), **text, "model_type": model_type}


def holds_more(config: Mapping[str, Any]) -> bool:
    """Whether it is of a checkpoint whose language model recipec takes out."""
    return str(config.get("model_type")) in TEXT_PARTS


class Stored(Struct, frozen=True):
    """What the Hub has of a model whose checkpoint holds more than its language model."""

    model_type: str  # of TEXT_PARTS
    params_billion: float  # all of them, vision included

    @property
    def renamed(self) -> tuple[str, ...]:
        """How the names of the language model's parameters begin, and how in the text part alone; or nothing."""
        return TEXT_PARTS[self.model_type]
