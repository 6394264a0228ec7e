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
