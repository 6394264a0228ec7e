"""How many sequences make one optimizer step."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of
from recipec.rules.pretraining import batch_for


@rule(
    "BATCH-001",
    decides="global_batch_size",
    key="train.global_batch_size",
    defaults="global_batch",
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
    Continued pretraining packs text into full blocks: 128 of them; above 100K texts 512, where 001's range for
    pretraining from scratch (512-4096) begins, since a small corpus would give too few steps.
    Pretraining: what is published counts tokens, so tokens are decided and divided by the length: 0.5M under 1B
    parameters, 1M under 5B (GPT-3), 4M under 100B (LLaMA), 16M above (Llama 3 405B); less where fewer than 1,000 steps
    would be left, but never under 003's 32 sequences. 001's 512-4096 sequences are 2M to 16M tokens of 4,096.
    """
    method = method_of(stage)
    if method.random_weights:
        return batch_for(params, max_length, examples * (tokens_per_example or max_length))
    return choose(method.global_batch, adaptation, examples, params)
