"""A transformers configuration from an Architecture: the way back of recipec/catalog/configs.py."""

from __future__ import annotations

from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_experts import expert_keys
from recipec.catalog.configs import flag_keys, layer_keys
from recipec.catalog.model_types import MODEL_TYPES


def config_fields(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that give `architecture`; what it does not hold (rotary base, epsilon) is left out.

    So is dropout of attention, with which kernels keep nothing more: a stand-in computes the same twice without it.
    """
    row = MODEL_TYPES[architecture.model_type]
    return {
        "model_type": architecture.model_type,
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": architecture.num_layers,
        "num_attention_heads": architecture.num_heads,
        "num_key_value_heads": architecture.num_kv_heads,
        "head_dim": architecture.head_dim,
        row.intermediate: architecture.intermediate_size,
        "vocab_size": architecture.vocab_size,
        "max_position_embeddings": architecture.max_position,
        "tie_word_embeddings": architecture.tie_embeddings,
        "pad_token_id": 0,  # some class defaults lie outside a small vocabulary
        **flag_keys(architecture),
        **layer_keys(architecture),
        **expert_keys(architecture),
    }
