"""Which attention implementation runs, and whether the model is compiled."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "PREC-002",
    decides="attention",
    key="train.attention",
    watch="tokens_per_second, peak_memory_gib: near the plan's; far below, another kernel was chosen",
    source="rule book 001, Rules (Flash Attention 2 when available), Anti-Pattern 4",
)
def attention(has_sdpa: bool) -> Choice:
    """Decides the attention implementation: PyTorch's scaled_dot_product_attention.

    001 asks for Flash Attention 2 "when available". It is not in the pinned stack, and asking for it there is an
    ImportError; sdpa is transformers' default, needs no extra package, and dispatches to PyTorch's own flash kernel on
    GPUs of compute capability 8.0 and later, so the gain is kept wherever there is no padding mask.
    """
    if not has_sdpa:
        return Choice("eager", "transformers 5.23 has no fused kernel for this architecture")
    return Choice("sdpa", "PyTorch's fused attention needs no further package and has a flash kernel for recent GPUs")


@rule(
    "PREC-003",
    decides="compile",
    key="train.compile",
    watch="tokens_per_second: when switched on, 10-30 % more after the first steps, or it does not pay",
    source="rule book 001, Rules (torch.compile, 10-30 %); 003, Distributed training (If 1 GPU)",
)
def compile_model() -> Choice:
    """Decides whether the model goes through torch.compile: not unless the recipe asks.

    001 promises 10-30 % and 003 compiles on one GPU. Fine-tuning batches change length at every step, so dynamic shapes
    are recompiled or padded; short runs do not earn the compile time back (a 2-layer model took 64 CPU seconds for
    10 steps against 7 without), and under ZeRO-3 it breaks (BAD-008). We leave it off and count no speedup in the plan;
    `train.compile = true` turns it on, and `tokens_per_second` tells whether it paid.
    """
    return Choice(False, "batches change their length at every step, and each new shape would be compiled again")
