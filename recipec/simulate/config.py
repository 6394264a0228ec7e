"""A transformers configuration from an Architecture: the way back of recipec/catalog/configs.py."""

from __future__ import annotations

from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import layer_keys
from recipec.catalog.model_types import MODEL_TYPES, Key, ModelType


def config_fields(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that give `architecture`; what it does not hold (rotary base, epsilon) is left out."""
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
        **_biases(architecture, row),
        **layer_keys(architecture),
        **_experts(architecture, row),
    }


def _biases(architecture: Architecture, row: ModelType) -> dict[str, bool]:
    flags = (
        (row.qkv_bias, architecture.attention_bias),
        (row.output_bias, architecture.output_bias),
        (row.mlp_bias, architecture.mlp_bias),
    )
    return {flag.name: value for flag, value in flags if isinstance(flag, Key)}


def _experts(architecture: Architecture, row: ModelType) -> dict[str, Any]:
    experts = architecture.moe
    if experts is None or row.moe is None:
        return {}
    fields: dict[str, Any] = {
        row.moe.count: experts.count,
        "num_experts_per_tok": experts.per_token,
        row.moe.intermediate: experts.intermediate_size,
    }
    if row.moe.shared:
        fields[row.moe.shared] = experts.shared_intermediate_size
    if row.moe.sparse_steps:
        fields |= {"decoder_sparse_step": 1, "mlp_only_layers": list(range(experts.dense_layers))}
    return fields
