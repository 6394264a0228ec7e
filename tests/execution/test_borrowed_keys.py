"""Gradients that come back from layers that borrow keys and values: recomputed layers lose them where the checkpoint is
reentrant (BAD-150)."""

from __future__ import annotations

from typing import Any

import pytest

from recipec.axes import ADAPTATIONS, STRATEGIES

pytestmark = pytest.mark.executes

TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "global_head_dim": 16,
    "vocab_size": 60,
    "vocab_size_per_layer_input": 60,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 8,
    "initializer_range": 0.2,
}


def gradients(checkpointing: dict[str, bool] | None) -> dict[str, Any]:
    """Of every parameter, of one step on the same tokens."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("gemma4_text", **TINY), dtype=torch.float32).train()
    if checkpointing is not None:
        model.activation_checkpointing_enable(checkpointing)
        model.enable_input_require_grads()
    tokens = torch.arange(3, 27).reshape(2, 12)
    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters()}


def off(checkpointing: dict[str, bool]) -> float:
    """The largest difference of a gradient, in shares of its largest value."""
    whole, found = gradients(None), gradients(checkpointing)
    return max(float((found[name] - whole[name]).abs().max() / whole[name].abs().max()) for name in whole)


def test_only_the_reentrant_checkpoint_loses_gradients_of_borrowed_keys() -> None:
    assert off({"use_reentrant": False}) < 1e-5
    assert off({"use_reentrant": True}) > 0.05


def test_the_ways_that_reenter_are_those_that_are_refused() -> None:
    reenters = {
        (strategy.name, adaptation.name)
        for strategy in STRATEGIES.values()
        for adaptation in ADAPTATIONS.values()
        if strategy.reenters(adaptation)
    }
    assert ("zero3", "lora") in reenters
    assert not reenters & {("single", "lora"), ("fsdp", "lora"), ("zero2", "full")}
