"""The rate of causal attention, forward and backward, counted as recipec/estimate/flops.py counts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from recipec.probe.device import dtypes, waiting
from recipec.probe.timing import rate, repeated
from recipec.units import TERA

LENGTHS = {"cuda": (2048, 8192), "cpu": (256, 1024)}  # tokens of a sequence
TOKENS_AT_ONCE = {"cuda": 8192, "cpu": 1024}
HEADS = {"cuda": (32, 128), "cpu": (8, 64)}  # heads, and features of each


def measure(device: str, budget_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row of `attention` for each type and length."""
    kinds, (heads, size) = dtypes(device), HEADS[device]
    each = budget_seconds / len(kinds) / len(LENGTHS[device])
    for name, dtype in kinds.items():
        for length in LENGTHS[device]:
            rows = TOKENS_AT_ONCE[device] // length
            operations = 3.5 * 4 * (length / 2) * heads * size * rows * length
            seconds = repeated(_step(rows, heads, length, size, device, dtype), each, waiting(device))
            found = rate(operations / TERA, seconds)
            yield {"dtype": name, "tokens": length, "heads": heads, "head_size": size, "tflops": found}


def _step(rows: int, heads: int, length: int, size: int, device: str, dtype: torch.dtype) -> object:
    shape = (rows, heads, length, size)
    query, key, value = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))

    def forward_and_backward() -> None:
        out = scaled_dot_product_attention(query, key, value, is_causal=True)
        torch.autograd.grad(out, (query, key, value), torch.ones_like(out))

    return forward_and_backward
