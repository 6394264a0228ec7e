"""The layers of a stand-in: few and narrow, and of every kind that the real model has."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture, WholeAttention
from recipec.catalog.config_experts import expert_keys
from recipec.catalog.configs import layer_keys

HIDDEN, INNER, LAYERS, HEADS, HEAD_DIM, EXPERTS, PER_TOKEN, WINDOW, POSITIONS = 64, 128, 2, 4, 16, 4, 2, 64, 4096


def kv_heads(shape: Architecture) -> int:
    """One for multi-query attention, all for multi-head attention, half for grouped queries."""
    if shape.num_kv_heads in (1, shape.num_heads):
        return 1 if shape.num_kv_heads == 1 else HEADS
    return HEADS // 2


def layers(shape: Architecture, vocab_size: int) -> dict[str, Any]:
    """A short window where there is one; a layer of each kind where a model has two."""
    if shape.pattern:
        return _one_of_each(shape)
    two = replace(shape, hidden_size=HIDDEN, num_layers=LAYERS, full_attention_every=LAYERS, attention_at=())
    if shape.mixer:
        return layer_keys(replace(two, mixer=shape.mixer.shrunk()))
    if shape.whole:
        heads = WholeAttention(min(HEADS // 2, shape.whole.num_kv_heads), 2 * HEAD_DIM, shape.whole.shares_values)
        return _entered(replace(two, sliding_window=WINDOW, whole=heads), vocab_size)
    if shape.chunked:
        return layer_keys(replace(two, sliding_window=WINDOW))
    window = None if shape.sliding_window is None else WINDOW
    return layer_keys(replace(shape, num_layers=LAYERS, sliding_window=window))


def _entered(two: Architecture, vocab_size: int) -> dict[str, Any]:
    """The two layers, and two more that borrow their keys and values where the model has such; small slices."""
    inputs = two.layer_inputs and replace(two.layer_inputs, features=HEAD_DIM)
    count = LAYERS * (2 if two.borrowing else 1)
    borrowing = min(LAYERS, two.borrowing)
    tiny = replace(two, num_layers=count, borrowing=borrowing, layer_inputs=inputs, vocab_size=vocab_size)
    return layer_keys(tiny) | {"num_hidden_layers": count}


def _one_of_each(shape: Architecture) -> dict[str, Any]:
    """A layer of each kind, and two of a kind that is the only one."""
    kinds = tuple(kind for kind, _ in shape.kinds)
    kinds *= 1 if len(kinds) >= LAYERS else LAYERS
    mixer = shape.mixer and shape.mixer.shrunk()
    tiny = replace(shape, hidden_size=HIDDEN, num_layers=len(kinds), pattern=kinds, mixer=mixer)
    return layer_keys(tiny) | {"num_hidden_layers": len(kinds)}


def experts(shape: Architecture) -> dict[str, Any]:
    """Four experts of which two are used, and the shared expert and dense layers of the real model."""
    if shape.moe is None:
        return expert_keys(shape)
    shared, dense = (min(1, number) for number in (shape.moe.shared_intermediate_size, shape.moe.dense_layers))
    tiny = replace(
        shape.moe,
        count=EXPERTS,
        per_token=PER_TOKEN,
        intermediate_size=INNER // 2,
        shared_intermediate_size=shared * INNER // 2,
        dense_layers=dense,
        every=min(LAYERS, shape.moe.every),
    )
    return expert_keys(replace(shape, moe=tiny))
