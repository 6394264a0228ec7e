"""The number format of the computation."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "PREC-001",
    decides="precision",
    key="train.precision",
    watch='loss, grad_norm: finite from step 1; NaN under fp16 is an overflow, so set `train.precision = "fp32"`',
    source="docs/rule-books/003.md, Stack defaults; Anti-patterns; docs/rule-books/001.md, Step 4; Anti-pattern 5; "
    "docs/rule-books/000.md, Mixed precision; docs/rule-books/002.md, Step 1; Step 2; Step 6; Best practices; "
    "Anti-patterns (against: GradScaler always); docs/rule-books/004.md, Golden rules; Anti-patterns; Implementation "
    "checklist; accelerate 1.15 utils/dataclasses.py (set_mixed_precision: reduce_dtype of FSDP2)",
)
def precision(gpu_bf16: bool, gpu_is_cpu: bool) -> Choice:
    """Compute format: bf16 where the GPU has it, fp16 on older GPUs, fp32 on a CPU.

    Rule book 003 says bf16 from Ampere on and fp16 before, and calls fp16 on Ampere an anti-pattern. Rule books 001 and
    004 want bf16. Rule book 003 also writes "fp16 base" for LoRA where rule book 001 writes "BF16 base"; recipec loads
    the base model in bf16. Rule book 000 allows both.

    bf16 has 8 bits of exponent like fp32, so no loss scaling is needed. Rule book 002 trains in fp16 by default and
    always with a GradScaler; recipec uses a scaler with fp16 only. Trained weights keep an fp32 master copy either way.

    Under FSDP2 the ranks also reduce gradients in this format, which is accelerate's default and needs half the traffic
    of fp32. Each rank adds the reduced gradients of its shard in fp32. Memory and time of a plan count it so.
    """
    if gpu_is_cpu:
        return Choice("fp32", "many CPUs emulate bf16, so the CPU computes in fp32")
    if gpu_bf16:
        return Choice("bf16", "the GPU computes in bf16, which has the range of fp32 and needs no loss scaling")
    return Choice("fp16", "the GPU has no bf16, so fp16 with loss scaling is used")


@rule(
    "PREC-005",
    decides="fp8",
    key="train.fp8",
    watch="loss, eval_loss: as in bf16. A loss that stays higher → set `train.fp8 = false`",
    source="torchao 0.18 float8/config.py (recipe rowwise); FP8 Formats for Deep Learning (arXiv 2209.05433, 2022)",
)
def fp8() -> Choice:
    """FP8 products in the linear layers: off unless the recipe sets it.

    With `train.fp8 = true`, torchao replaces the linear layers of the decoder by ones that round their inputs, weights
    and gradients to 8 bits (e4m3, with a scale for every row) and multiply these. The output head, embeddings, norms
    and layers whose sizes are no multiples of 16 stay in bf16. Weights stay in fp32, and checkpoints and the result
    are those of any run. train.py tries one product before it trains. evaluate.py scores the result in bf16.

    torchao reports up to 1.25 times the throughput of bf16 for a Llama 3 of 8B on eight H100, and fewer for small
    matrices, where rounding takes longer than it saves. No run of a bundle with FP8 is recorded, so the plan counts
    the time and memory of bf16: neither was scored. Rounding and scaling are fast only where torch.compile fuses them,
    so `train.compile` is on with it. Batches are padded to a multiple of 16 tokens, which the products need.
    """
    return Choice(False, "no run with FP8 is recorded, so recipec uses it only where a recipe asks")
