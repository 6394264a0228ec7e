"""How many sequences make one optimizer step."""

from __future__ import annotations

from math import ceil, log2

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of
from recipec.rules.pretraining import batch_for


@rule(
    "BATCH-001",
    decides="global_batch_size",
    key="train.global_batch_size",
    defaults="global_batch",
    watch="grad_norm, loss: both are smooth; if they are noisy, raise `train.global_batch_size`",
    source="docs/rule-books/001.md, Key hyperparameters; Rules; Anti-pattern 5; docs/rule-books/002.md, Best "
    "practices; docs/rule-books/003.md, Batch size & gradient accumulation; Quality gates; docs/rule-books/004.md, "
    "Golden rules; Anti-patterns; GPT-3 (arXiv 2005.14165, 2020); LLaMA (arXiv 2302.13971, 2023); Llama 3 (arXiv "
    "2407.21783, 2024)",
)
def global_batch_size(
    stage: str,
    adaptation: str,
    examples: int,
    params: int,
    max_length: int,
    tokens_per_example: int,
    packing: bool = False,
) -> Choice:
    """Global batch size: sequences per optimizer step, over all GPUs and gradient accumulation steps.

    Rule book 003 wants 32 or more. Rule book 001 gives 16 to 128 for LoRA, 32 to 512 for full fine-tuning and 16 to 64
    for DPO. 32 satisfies all of them; full fine-tuning takes 64.

    Rule book 001 also wants the batch as large as the GPU memory allows, and a smaller batch against instability. Both
    would let the hardware change what is learned. recipec therefore fixes the global batch, and the planner chooses the
    micro batch and reaches the global batch by gradient accumulation, as rule books 002, 003 and 004 do. Where GPUs
    would be idle with it, the planner raises it, within the accepted range, and says so.

    Continued pretraining packs documents into full blocks and takes 128 blocks. Above 100,000 blocks it takes 512, the
    low end of rule book 001 for pretraining, because a smaller corpus would give too few steps. Blocks count, not
    documents, which may be of any length. The two values are recipec's choice.

    Published pretraining runs count the batch in tokens, so recipec decides tokens and divides them by the length: 0.5M
    under 1B parameters and 1M under 5B (GPT-3), 4M under 100B (LLaMA), 16M above (Llama 3 405B). It takes less where
    fewer than 1,000 steps would be left, but never fewer than 32 sequences. The 512 to 4096 sequences of rule book 001
    are 2M to 16M tokens of 4,096.

    Packed examples share a sequence, and packing should change the speed of a run, not what it learns: recipec takes as
    many sequences, rounded to a power of two, as hold the examples of a step that is not packed.
    """
    method = method_of(stage)
    if method.random_weights:
        return batch_for(params, max_length, examples * tokens_per_example)
    seen = ceil(examples * tokens_per_example / max_length) if method.packs == "blocks" else examples
    rows = choose(method.global_batch, adaptation, seen, params)
    shared = packing and method.packs == "examples" and tokens_per_example < max_length
    return _packed(rows, max_length / tokens_per_example) if shared else rows


def _packed(rows: Choice, per_sequence: float) -> Choice:
    """As many sequences as hold these examples, where one holds `per_sequence`."""
    least, most = (max(1, round(bound / per_sequence)) for bound in rows.accepts or (1, rows.value))
    sequences = 1 << max(0, round(log2(rows.value / per_sequence)))
    because = f"about {rows.value} examples in a step, {per_sequence:.2g} to a packed sequence; {rows.because}"
    return Choice(sequences, because, accepts=(least, max(most, sequences)), source=rows.source)
