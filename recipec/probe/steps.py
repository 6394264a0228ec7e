"""Micro steps of a small causal language model at three sizes: what products and copies alone do not tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from recipec.catalog.measured import PROBED
from recipec.probe.device import dtypes, waiting
from recipec.probe.left_out import left_out
from recipec.probe.timing import MOST, WARM_UPS, figure

LEAST = 3  # steps that are counted: on a CPU one of the largest batch takes seconds


def measure(device: str, budget_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row of `micro_step` for each size: forward and backward, then the optimizer."""
    shape = PROBED[device]
    model, precision = model_of(device), list(dtypes(device))[-1]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    parameters = sum(weight.numel() for weight in model.parameters())
    for sequences, length in shape.batches:
        each = budget_seconds / len(shape.batches)
        batch = torch.randint(0, shape.vocabulary, (sequences, length), device=device)
        try:
            passes, steps = timed(model, optimizer, batch, precision, each)
        except torch.OutOfMemoryError:  # of a small card, which has no room for the larger batches either
            left_out(f"micro steps of {sequences} x {length} tokens and more", "out of memory")
            return
        yield {
            "dtype": precision,
            "parameters": parameters,
            "sequences": sequences,
            "tokens": length,
            "passes_seconds": figure(passes),
            "optimizer_seconds": figure(steps),
        }


def model_of(device: str) -> PreTrainedModel:
    """The probed model, with random weights."""
    shape = PROBED[device]
    config = LlamaConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocabulary,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).to(device).train()


def timed(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, batch: torch.Tensor, precision: str, budget_seconds: float
) -> tuple[list[float], list[float]]:
    """Seconds of forward and backward, and of the optimizer, for each repetition."""
    wait = waiting(batch.device.type) or (lambda: None)
    dtype = dtypes(batch.device.type)[precision]
    cast = nullcontext() if precision == "fp32" else torch.autocast(batch.device.type, dtype)
    passes: list[float] = []
    steps: list[float] = []
    end = time.perf_counter() + budget_seconds
    while len(passes) < WARM_UPS + LEAST or (time.perf_counter() < end and len(passes) < MOST):
        began = time.perf_counter()
        with cast:
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        wait()
        passed = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad()
        wait()
        passes.append(passed - began)
        steps.append(time.perf_counter() - passed)
    return passes[WARM_UPS:], steps[WARM_UPS:]
