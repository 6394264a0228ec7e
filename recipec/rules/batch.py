"""How many sequences make one optimizer step."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.pretraining import batch_for


@rule(
    "BATCH-001",
    decides="global_batch_size",
    key="train.global_batch_size",
    watch="grad_norm, loss: a noisy norm and a ragged loss ask for a larger batch",
    source="rule book 001, Key Hyperparameter Rules (Batch size), Rules, Anti-Pattern 5; 003, Batch size & gradient "
    "accumulation, Quality Gates; GPT-3 (arXiv 2005.14165, 2020), LLaMA (2302.13971, 2023), Llama 3 (2407.21783, 2024)",
)
def global_batch_size(
    stage: str, adaptation: str, examples: int, params: int, max_length: int, tokens_per_example: int | None
) -> Choice:
    """Decides how many sequences an optimizer step learns from, over all GPUs and accumulation steps.

    003 wants 32 or more and defaults to 32; 001 gives 16-128 for LoRA, 32-512 for full, 16-64 for DPO. 32 satisfies
    all of them; full fine-tuning takes 64. 001 also says "batch size maximized for GPU memory", and elsewhere "reduce
    batch size" against instability: both would let the hardware change what is learned. We fix the target and leave
    the memory to the planner, which chooses the micro batch and reaches the target by accumulation.
    Continued pretraining packs text into full blocks: 128 of them; from 100K texts on 512, where 001's range for
    pretraining from scratch (512-4096) begins, since a small corpus would give too few steps.
    Pretraining: what is published counts tokens, so tokens are decided and divided by the length: 0.5M under 1B
    parameters, 1M under 5B (GPT-3), 4M under 100B (LLaMA), 16M above (Llama 3 405B); less where fewer than 1,000 steps
    would be left, but never under 003's 32 sequences. 001's 512-4096 sequences are 2M to 16M tokens of 4,096.
    """
    if stage == "pretrain":
        return batch_for(params, max_length, examples * (tokens_per_example or max_length))
    if stage == "continue-pretrain":
        size = 512 if examples >= 100_000 else 128
        return Choice(size, f"{size} packed blocks for {examples:,} texts", accepts=(32, 4096))
    if stage == "dpo":
        return Choice(32, "32 pairs, range 16-64", accepts=(16, 64))
    if adaptation == "full":
        return Choice(64, "64 sequences for full fine-tuning, range 32-512", accepts=(32, 512))
    return Choice(32, "32 sequences: the least that rule book 003 accepts, range 16-128 of 001", accepts=(16, 128))
