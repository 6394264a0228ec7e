"""The configuration of a stand-in: the same architecture class and structure as a model, in a few thousand weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import window_keys
from recipec.catalog.model_types import MODEL_TYPES, Key, ModelType

HIDDEN, INNER, LAYERS, HEADS, HEAD_DIM, EXPERTS, PER_TOKEN, WINDOW, POSITIONS = 64, 128, 2, 4, 16, 4, 2, 64, 4096
USUAL_RANGE = 0.02  # initializer_range of most model types in transformers 5.23: the first loss is that of a guess
EXPRESSIVE_RANGE = 0.1  # five times the usual: a frozen random head must be able to express a confident answer


def stand_in_config(
    shape: Architecture, vocab_size: int, spread: float = EXPRESSIVE_RANGE, **tokens: int | None
) -> dict[str, Any]:
    """The tiny config.json of `shape`'s model type; `tokens` are its special token ids (pad, bos, eos)."""
    row = MODEL_TYPES[shape.model_type]
    sizes = {
        "model_type": shape.model_type,
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": _kv_heads(shape),
        "head_dim": HEAD_DIM if shape.query_size == shape.hidden_size else 2 * HEAD_DIM,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": shape.tie_embeddings,
        "initializer_range": spread,
    }
    return sizes | _flags(shape, row) | _window(shape) | _experts(shape, row) | tokens


def _kv_heads(shape: Architecture) -> int:
    """One for multi-query attention, all for multi-head attention, half for grouped queries."""
    if shape.num_kv_heads in (1, shape.num_heads):
        return 1 if shape.num_kv_heads == 1 else HEADS
    return HEADS // 2


def _flags(shape: Architecture, row: ModelType) -> dict[str, bool]:
    """The biases that the configuration decides; those that the class decides need no key."""
    pairs = ((row.qkv_bias, shape.attention_bias), (row.output_bias, shape.output_bias), (row.mlp_bias, shape.mlp_bias))
    return {flag.name: value for flag, value in pairs if isinstance(flag, Key)}


def _window(shape: Architecture) -> dict[str, Any]:
    window = None if shape.sliding_window is None else WINDOW
    return window_keys(replace(shape, num_layers=LAYERS, sliding_window=window))


def _experts(shape: Architecture, row: ModelType) -> dict[str, Any]:
    """Four experts of which two are used, and the shared expert and dense layers of the real model."""
    if shape.moe is None or row.moe is None:
        return {}
    config: dict[str, Any] = {
        row.moe.count: EXPERTS,
        "num_experts_per_tok": PER_TOKEN,
        row.moe.intermediate: INNER // 2,
    }
    if row.moe.shared:
        config[row.moe.shared] = INNER // 2
    if shape.moe.dense_layers:
        config["mlp_only_layers"] = [0]
    return config
