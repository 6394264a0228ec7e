"""Which attention implementation runs, and whether the model is compiled."""

from __future__ import annotations

from recipec.axes.loops import TRAINER
from recipec.rules.core import Choice, rule
from recipec.rules.data import WRAPPED


@rule(
    "PREC-002",
    decides="attention",
    key="train.attention",
    watch="tokens_per_second, peak_memory_gib: near the plan; if speed is far lower, PyTorch runs a slower kernel",
    source="docs/rule-books/001.md, Rules; Anti-pattern 4 (against: FlashAttention 2 as a package); transformers 5.23 "
    "modeling_utils.py; torch 2.13 nn/attention/varlen.py",
)
def attention(has_sdpa: bool) -> Choice:
    """Attention implementation: PyTorch's `scaled_dot_product_attention`.

    Rule book 001 wants FlashAttention 2 "when available". Its package is not among the pinned versions, so asking for
    it would end in an ImportError (BAD-011). SDPA is the default of transformers, needs no further package, and runs
    PyTorch's own flash kernel on GPUs of compute capability 8.0 and later. The gain is kept wherever a batch has no
    padding mask.

    `train.attention = "torch_varlen"` calls the variable-length flash kernel that PyTorch itself has: examples are
    packed without padding and without a mask, which pays most where rows are short. The bundle brings the short file
    that registers it with transformers. On a CPU its losses are those of rows that are not packed. No run of it on a
    GPU is recorded yet, so recipec does not choose it; with it the bundle proves on the GPU, before step 1, that
    examples do not attend to each other.
    """
    if not has_sdpa:
        return Choice("eager", "transformers 5.23 has no fused attention for this architecture")
    return Choice("sdpa", "PyTorch's fused attention needs no further package and has a flash kernel for recent GPUs")


@rule(
    "PREC-003",
    decides="compile",
    key="train.compile",
    watch="tokens_per_second: with compile on, higher after the first steps; if not, set `train.compile = false`",
    source="docs/rule-books/001.md, Rules; docs/rule-books/003.md, Distributed training; docs/rule-books/004.md, "
    "Implementation checklist (against: on by default)",
)
def compile_model(packing_strategy: str) -> Choice:
    """torch.compile: off unless the recipe sets it.

    Rule book 001 promises 10% to 30% more throughput, rule book 003 compiles on a single GPU, and rule book 004 has
    torch.compile on its checklist. Batches of fine-tuning change length at every step, so kernels are compiled again or
    rows are padded. Raw text that is cut into full blocks has one length, and is compiled once. Short runs do not earn
    the time of compiling back: a model of 2 layers took 64 CPU seconds for 10 steps, against 7 without. Under ZeRO-3 it
    breaks (BAD-008).

    `train.compile = true` turns it on. recipec has measured no speedup, so the plan counts none. It counts what
    attention loses: a compiled forward pass hands SDPA a mask where an ordinary one finds that none is needed (packed
    text, rows of one length), and with a mask SDPA cannot use its fastest kernel. Long rows of a small model may so be
    planned to take a fifth longer. `tokens_per_second` shows whether compiling pays.
    """
    if packing_strategy == WRAPPED:
        why = "all blocks have one length, which suits compiling, but recipec has measured no speedup of it"
        return Choice(False, why)
    return Choice(False, "batches change length at every step, and each new length would be compiled again")


@rule(
    "LOOP-001",
    decides="loop",
    key="train.loop",
    watch="eval_loss: with another loop, that of the trainer on the same rows, but for rounding",
    source="docs/rule-books/001.md, Training loop architecture; docs/rule-books/002.md, Step 1; Step 3 (against: "
    "always a loop on Accelerate); docs/rule-books/000.md, Concepts",
    combined="loop",
)
def training_loop() -> Choice:
    """Who runs the steps: the method's trainer, unless the recipe wants a loop of its own.

    Rule book 001 lets the Trainer do accumulation, clipping and logging, rule book 002 writes loops by hand. TRL's
    trainers have every method and strategy, and their kernels keep no logits of the whole vocabulary: with 150,000
    tokens in it those of one sequence of 2,048 take more than 3 GiB, forward and backward.

    `train.loop = "accelerate"`, `"torch"` or `"deepspeed"` writes a train.py with every step in it, for a team that
    wants no Trainer: supervised fine-tuning and pretraining, all weights or LoRA. The loss of a step is the mean over
    all trained tokens of the global batch, on whatever rank they are; a resumed run ends with the weights of one that
    was not stopped. With `"deepspeed"` the engine of DeepSpeed shards (ZeRO-1, 2 or 3, as planned), clips, scales fp16
    and saves; its configuration has numbers alone, since only the Trainer would fill in "auto". What the loops cannot
    do is refused by the rows listed below. The evaluation weighs every token alike, where the Trainer weighs every
    batch alike.
    """
    return Choice(TRAINER.name, TRAINER.because)
