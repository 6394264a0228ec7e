"""The batch of a training from random weights goes by the size of the model, as its learning rate does.

What was published, all with AdamW (batches in tokens):

| model | parameters | peak learning rate | batch | from |
|---|---|---|---|---|
| GPT-3 | 125M, 350M, 760M | 6e-4, 3e-4, 2.5e-4 | 0.5M | arXiv 2005.14165, table 2.1 (2020) |
| GPT-3 | 1.3B, 2.7B | 2e-4, 1.6e-4 | 1M | the same |
| GPT-3 | 175B | 6e-5 | 3.2M | the same |
| LLaMA | 7B, 13B | 3e-4 | 4M | arXiv 2302.13971, table 2 (2023) |
| LLaMA | 33B, 65B | 1.5e-4 | 4M | the same |
| Pythia | 70M, 160M, 1B | 1e-3, 6e-4, 3e-4 | 2M | arXiv 2304.01373 (2023) |
| Llama 3 | 8B, 70B, 405B | 3e-4, 1.5e-4, 8e-5 | 4M to 16M (405B) | arXiv 2407.21783, table 3, section 3.4.1 (2024) |
"""

from __future__ import annotations

from recipec.rules.core import Choice

_BATCHES = (  # up to so many parameters -> tokens, and whose they are
    (1e9, 2**19, "GPT-3 125M to 760M"),
    (5e9, 2**20, "GPT-3 1.3B and 2.7B"),
    (100e9, 2**22, "LLaMA 7B to 65B"),
    (float("inf"), 2**24, "Llama 3 405B"),
)
_FEWEST_STEPS = 1_000  # recipec's choice: a run of fewer steps is mostly warmup and decay
_SMALLEST, _LARGEST = 512, 4096  # sequences: rule book 001, Key hyperparameters
_LEAST = 32  # sequences: rule book 003, Quality gates


def batch_for(params: int, max_length: int, total_tokens: int) -> Choice:
    """The sequences of one optimizer step: a power of two, and so few that there are _FEWEST_STEPS steps."""
    _, published, whose = next(row for row in _BATCHES if params < row[0])
    wanted, most = published // max_length, total_tokens // _FEWEST_STEPS // max_length
    size = max(_LEAST, power_of_two(min(wanted, most)))
    total = f"{total_tokens / 1e9:.3g}B tokens"
    if min(wanted, most) < _LEAST:
        why = f"the fewest sequences that average the noise of a step ({_LEAST})"
    else:
        why = f"as published for {whose}" if wanted <= most else f"so that {total} give {_FEWEST_STEPS:,} steps"
    because = f"{size * max_length / 2**20:.2g}M tokens per step in sequences of {max_length:,}, {why}"
    return Choice(size, because, accepts=(min(size, _SMALLEST), max(size, _LARGEST)))


def power_of_two(value: int) -> int:
    """Round down to a power of two, at least 1."""
    return 1 << max(0, value.bit_length() - 1)
