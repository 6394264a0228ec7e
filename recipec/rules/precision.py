"""The number format of the computation."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "PREC-001",
    decides="precision",
    key="train.precision",
    watch="loss, grad_norm: finite from step 1; NaN under fp16 is an overflow",
    source="rule book 003, Stack Defaults (Multi-precision), Anti-Patterns; 001, Anti-Pattern 5; 000, Mixed Precision",
)
def precision(gpu_bf16: bool, gpu_is_cpu: bool) -> Choice:
    """Decides the compute format: bf16 where the GPU has it, fp16 on older ones, fp32 on a CPU.

    003 says bf16 from Ampere on, fp16 before, and lists fp16 on Ampere as an anti-pattern; 001 agrees (bf16 does not
    overflow). 003 also writes "fp16 base" for LoRA where 001 writes "BF16 base": bf16, for the same reason. bf16 has 8
    bits of exponent like fp32, so no loss scaling is needed; trained weights keep an fp32 master copy either way.
    """
    if gpu_is_cpu:
        return Choice("fp32", "a CPU has no GPU memory to save, and many emulate bf16")
    if gpu_bf16:
        return Choice("bf16", "the GPU computes in bf16, which has the range of fp32 and needs no loss scaling")
    return Choice("fp16", "the GPU has no bf16, so fp16 with loss scaling is used")
