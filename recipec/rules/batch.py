"""How many sequences make one optimizer step."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "BATCH-001",
    decides="global_batch_size",
    key="train.global_batch_size",
    watch="grad_norm, loss: a noisy norm and a ragged loss ask for a larger batch",
    source="rule book 001, Key Hyperparameter Rules (Batch size), Rules, Anti-Pattern 5; 003, Batch size & gradient "
    "accumulation, Quality Gates",
)
def global_batch_size(stage: str, adaptation: str, examples: int) -> Choice:
    """Decides how many sequences an optimizer step learns from, over all GPUs and accumulation steps.

    003 wants 32 or more and defaults to 32; 001 gives 16-128 for LoRA, 32-512 for full, 16-64 for DPO. 32 satisfies
    all of them; full fine-tuning takes 64. 001 also says "batch size maximized for GPU memory", and elsewhere "reduce
    batch size" against instability: both would let the hardware change what is learned. We fix the target and leave
    the memory to the planner, which chooses the micro batch and reaches the target by accumulation.
    Continued pretraining packs text into full blocks: 128 of them; from 100K texts on 512, where 001's range for
    pretraining from scratch (512-4096) begins, since a small corpus would give too few steps.
    """
    if stage == "continue-pretrain":
        size = 512 if examples >= 100_000 else 128
        return Choice(size, f"{size} packed blocks for {examples:,} texts", accepts=(32, 4096))
    if stage == "dpo":
        return Choice(32, "32 pairs, range 16-64", accepts=(16, 64))
    if adaptation == "full":
        return Choice(64, "64 sequences for full fine-tuning, range 32-512", accepts=(32, 512))
    return Choice(32, "32 sequences: the least that rule book 003 accepts, range 16-128 of 001", accepts=(16, 128))
