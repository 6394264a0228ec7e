"""How many sequences make one optimizer step."""

from __future__ import annotations

from math import ceil, log2

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of
from recipec.rules.evaluation import own_rows
from recipec.rules.pretraining import batch_for, power_of_two
from recipec.units import counted


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
    gpus: int = 1,
    source_rows: int = 0,
    eval_fraction: float = 0.0,
    test_fraction: float = 0.0,
) -> Choice:
    """Global batch size: sequences per optimizer step, over all GPUs and gradient accumulation steps.

    Rule book 003 wants 32 or more. Rule book 001 gives 16 to 128 for LoRA, 32 to 512 for full fine-tuning and 16 to 64
    for DPO. 32 satisfies all of them; full fine-tuning takes 64.

    Rule book 001 also wants the batch as large as the GPU memory allows, and a smaller batch against instability. Both
    would let the hardware change what is learned. recipec therefore fixes the global batch, and the planner chooses the
    micro batch and reaches the global batch by gradient accumulation, as rule books 002, 003 and 004 do. Where GPUs
    would be idle with it, or the largest accepted batch would be clearly faster, the planner raises it: to the smallest
    that is not clearly slower than the best, within the accepted range or up to 7% above it, where GPUs, or micro
    batches that they compute well, share such a batch better. Of answers, which are written in little more time where
    they are more, it takes 16 for each GPU or more, and raises them further only until all GPUs have work, or where
    these wait for each other. The plan says so.

    Continued pretraining packs documents into full blocks and takes 128 blocks. Above 100,000 blocks it takes 512, the
    low end of rule book 001 for pretraining, because a smaller corpus would give too few steps. Blocks count, not
    documents, which may be of any length, and only those of training rows. The two values are recipec's choice. Where
    so few blocks are there that 128 would leave fewer than 20 steps of a pass, it takes as many as leave 20, but 8 or
    more while two steps remain.

    Published pretraining runs count the batch in tokens, so recipec decides tokens and divides them by the length: 0.5M
    under 1B parameters and 1M under 5B (GPT-3), 4M under 100B (LLaMA), 16M above (Llama 3 405B). It takes less where
    fewer than 1,000 steps would be left, but never fewer than 32 sequences. The 512 to 4096 sequences of rule book 001
    are 2M to 16M tokens of 4,096.

    Packed examples share a sequence, and packing should change the speed of a run, not what it learns: recipec takes as
    many sequences, rounded to a power of two, as hold the examples of a step that is not packed. However short the
    examples are, it accepts one sequence for each GPU, because a GPU without a sequence cannot train.
    """
    method = method_of(stage)
    if method.random_weights:
        return batch_for(params, max_length, examples * tokens_per_example)
    if method.packs == "blocks":
        held = {"test_fraction": test_fraction, "eval_fraction": eval_fraction}
        trained = own_rows({"examples": examples, "source_rows": source_rows or examples} | held)
        blocks = ceil(trained * tokens_per_example / max_length)
        return _of_blocks(choose(method.global_batch, adaptation, blocks, params), blocks)
    rows = choose(method.global_batch, adaptation, examples, params)
    shared = packing and method.packs == "examples" and tokens_per_example < max_length
    return _packed(rows, max_length / tokens_per_example, gpus) if shared else rows


_FEWEST_STEPS = 20  # recipec's choice: in fewer, the learning rate rises and falls in a few jumps (W0508)
_SMALL = 8  # sequences; recipec's choice: fewer are noise, and are taken where a pass would be a single step


def _of_blocks(rows: Choice, blocks: int) -> Choice:
    """Fewer blocks where the text is so short that a pass would be a few steps, or one, in which nothing is learned."""
    size = max(power_of_two(blocks // _FEWEST_STEPS), min(_SMALL, power_of_two(blocks // 2)))
    if size >= rows.value or rows.accepts is None:
        return rows
    steps = counted(ceil(blocks / rows.value), "step")
    because = f"the training rows fill {counted(blocks, 'block')}, which {rows.value} in a step would use up in {steps}"
    return Choice(size, because, accepts=(min(rows.accepts[0], size), rows.accepts[1]), source=rows.source)


def _packed(rows: Choice, per_sequence: float, gpus: int) -> Choice:
    """As many sequences as hold these examples, where one holds `per_sequence`; one for each GPU is accepted."""
    least, most = (max(1, round(bound / per_sequence)) for bound in rows.accepts or (1, rows.value))
    sequences = 1 << max(0, round(log2(rows.value / per_sequence)))
    holds = f"{counted(sequences, 'packed sequence')} of about {per_sequence:.2g} examples"
    because = f"sequences are counted, not rows: {holds}, the power of two nearest to {rows.value} examples; "
    because += rows.because
    return Choice(sequences, because, accepts=(least, max(most, sequences, gpus)), source=rows.source)
