"""How a stage runs on its ranks: the planner searches, and these rules say why what it found is taken."""

from __future__ import annotations

from recipec.axes import STRATEGIES
from recipec.rules.core import Choice, rule
from recipec.units import counted

_PREDICTED = "memory and time estimates of the planner (benchmarks/results)"


@rule(
    "STRAT-001",
    decides="strategy",
    key="train.strategy",
    watch="tokens_per_second: near the prediction; far below, communication is the bottleneck",
    source=f"rule book 003, Distributed training; 004, Golden Rules; 000, strategies; {_PREDICTED}",
)
def strategy(fastest: str, peak: str) -> Choice:
    """Decides how the work of a step is spread over ranks: the simplest strategy among those that are as fast.

    Every strategy that the GPUs allow is laid out, its memory predicted, and what fits is timed. Among layouts whose
    predicted times differ by less than 25%, which is as much as the estimates err, the simplest wins, in this order:
    one device, DDP, FSDP, HSDP, ZeRO-1, ZeRO-2, ZeRO-3.

    003 and 004 say the same in other words: DDP while the model fits on a GPU, sharding when it does not, and no more
    of it than is needed. Both put DeepSpeed ZeRO-2 before FSDP as the milder step. We put FSDP2 first: it is a part of
    PyTorch, so a bundle needs no further package that compiles operators; its sharded checkpoints resume on another
    number of ranks; and the rest of the ecosystem (torch.compile, DTensor) is built on it. What ZeRO-2 would save over
    it, the gathering of weights, is in the predicted times, so ZeRO-2 still wins wherever that matters by more than
    the tie. ZeRO also comes first where FSDP cannot run: a 4-bit base (BAD-003), optimizers of bitsandbytes (BAD-004),
    states in host memory. 000 names ZeRO-3 for the largest models; FSDP shards the same.
    """
    return Choice(fastest, f"{STRATEGIES[fastest].because}; {peak}")


@rule(
    "STRAT-002",
    decides="offload",
    key="train.offload",
    watch="tokens_per_second: offloading trades speed for memory",
    source=f"rule book 003, Distributed training; 001, Decision Tree (Available compute?); {_PREDICTED}",
)
def offload(least: str, peak: str, host_gib: float) -> Choice:
    """Decides whether optimizer states wait in host memory: only where no layout fits without.

    001 and 003 name CPU offload as the last step before a larger machine, since every optimizer step then waits for the
    link to the host. It is tried after sharding, another adaptation and activations in host memory. Offload to NVMe
    is not offered: DeepSpeed 0.19 resumes such a run from the wrong weights (tried).
    """
    if least == "none":
        return Choice(least, f"everything fits into GPU memory: {peak}")
    return Choice(least, f"optimizer states wait in host memory, {host_gib:.0f} GiB of each node's: {peak}")


@rule(
    "STRAT-003",
    decides="micro_batch_size",
    key="train.micro_batch_size",
    watch="peak_memory_gib: near the prediction; on out-of-memory halve this and double the accumulation",
    source=f"rule book 003, Batch size & gradient accumulation; 001, Rules (batch size for GPU memory); {_PREDICTED}",
)
def micro_batch_size(largest: int, peak: str) -> Choice:
    """Decides how many sequences a GPU works on at once: the most that fit and divide its share of the global batch.

    001 maximizes the batch for the GPU's memory, 003 wants the largest that fits. Both hold for the micro batch: it
    changes speed and memory, and nothing of what is learned. One row at a time is taken where that is faster, because
    a single row needs no mask.
    """
    return Choice(largest, f"the largest that fits: {peak}")


@rule(
    "STRAT-004",
    decides="gradient_accumulation",
    watch="samples_per_second: constant; it only splits the global batch",
    source="rule book 003, Batch size & gradient accumulation; 004, Golden Rules",
)
def gradient_accumulation(steps: int, global_batch_size: int, micro_batch_size: int, ranks: int) -> Choice:
    """Decides how many micro batches make an optimizer step: what the global batch leaves after micro batch and ranks.

    003 reaches the effective batch by accumulation, so that hardware does not decide what is learned. Where the ranks
    cannot make the global batch exactly, the nearest batch is taken and the plan says so.
    """
    product = f"{global_batch_size} sequences = {micro_batch_size} x {steps} x {ranks}"
    return Choice(steps, f"{product} (micro batch, accumulation, data-parallel ranks)")


@rule(
    "STRAT-005",
    decides="checkpointing",
    key="train.activation_checkpointing",
    watch="tokens_per_second, peak_memory_gib: off costs memory, on about a third more compute",
    source=f"rule book 000, Gradient Checkpointing; 001, Rules (models > 7B); 004, Anti-Patterns; {_PREDICTED}",
)
def checkpointing(every: int, on_host: bool) -> Choice:
    """Decides whether gradient (activation) checkpointing is on: where activations would not fit, or PREC-004 wants it.

    It stores the input of a layer and recomputes the rest in the backward pass: about a third more compute for most of
    the activation memory. 000 and 001 turn it on for large models whatever the memory (PREC-004); beyond that the
    planner turns it on only where a larger micro batch or a simpler strategy pays for it.
    """
    if not every:
        return Choice(False, "activations fit, and recomputing them would cost time")
    layers = "every layer" if every == 1 else f"one of {every} layers"
    where = ", from inputs that wait in host memory" if on_host else ""
    return Choice(True, f"activations of {layers} are recomputed in the backward pass{where}")


@rule(
    "STRAT-006",
    decides="world_size",
    watch="samples_per_second: grows with the ranks",
    source=f"rule book 004, Golden Rules; 003, Distributed training; {_PREDICTED}",
)
def world_size(ranks: int, gpus: int, micro_batches: int, noun: str) -> Choice:
    """Decides how many of the given GPUs train: all of them, unless more of them would not be clearly faster.

    004 scales out only when a smaller setting is exhausted. GPUs stay idle where the global batch has no sequence for
    them, and where no layout on more of them is faster by more than the estimates err. Idle GPUs are paid, so the plan
    names them and what would use them.
    """
    if ranks == gpus:
        return Choice(ranks, f"all {gpus} {noun}s train" if gpus > 1 else f"the recipe has one {noun}")
    if micro_batches < gpus:
        return Choice(ranks, f"the global batch has no sequence for the other {counted(gpus - ranks, noun)}")
    return Choice(ranks, f"no layout that fits on more of the {gpus} {noun}s is clearly faster")
