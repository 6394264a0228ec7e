"""The rate of matrix products: rows of several numbers of tokens times a square weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from recipec.probe.device import dtypes, waiting
from recipec.probe.timing import rate, repeated
from recipec.units import TERA

TOKENS = (64, 512, 4096)
WIDTH = {"cuda": 4096, "cpu": 512}  # features of the weight, about those of the models that such a device trains


def measure(device: str, budget_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row of `product` for each type and number of tokens."""
    kinds, width = dtypes(device), WIDTH[device]
    each = budget_seconds / len(kinds) / len(TOKENS)
    for name, dtype in kinds.items():
        weight = torch.randn(width, width, device=device, dtype=dtype)
        for tokens in TOKENS:
            rows = torch.randn(tokens, width, device=device, dtype=dtype)
            seconds = repeated(lambda: rows @ weight, each, waiting(device))  # noqa: B023 - called at once
            found = rate(2 * tokens * width * width / TERA, seconds)
            yield {"dtype": name, "tokens": tokens, "width": width, "tflops": found}
