"""How a stage runs on its ranks: the planner searches, and these rules say why what it found is taken."""

from __future__ import annotations

from recipec.axes import STRATEGIES
from recipec.rules.core import Choice, rule
from recipec.units import counted

_PREDICTED = "memory and time estimates of the planner"


@rule(
    "STRAT-001",
    decides="strategy",
    key="train.strategy",
    watch="tokens_per_second: near the plan; if far below, communication is slower than assumed: check "
    "`hardware.gpu_link` and `hardware.network_gbps`",
    source="docs/rule-books/003.md, Distributed training; Stack defaults; docs/rule-books/000.md, Strategy table; "
    "docs/rule-books/004.md, Golden rules; Parallelism types; Zero redundancy; FSDP and DeepSpeed compared; "
    "Anti-patterns; docs/rule-books/001.md, Decision tree: available compute; Step 6; docs/rule-books/002.md, Step 2; "
    f"Step 3; {_PREDICTED}",
)
def strategy(fastest: str, peak: str, compared: str) -> Choice:
    """Strategy: how the work of a step is spread over ranks; the fastest that fits, and the simplest of equally fast.

    The planner lays out every strategy that the GPUs allow, predicts its memory, and times what fits. Predicted times
    within 25% of the fastest one count as equal, because the estimates are not more accurate; within 5% where
    `goal.priority = "speed"`. Among these layouts the simplest wins, in this order: one device, DDP, FSDP2 or HSDP
    (the faster of these two), ZeRO-1, ZeRO-2, ZeRO-3. It may leave GPUs of a node idle only where those would save less
    than 5%: they are paid for either way. With `goal.priority = "memory"` the one wins that takes least memory of each
    GPU, and keeps nothing in host memory for it; times within 12% are equal then, and those of micro batches, too.

    | rule book | what it says |
    |---|---|
    | 000 | DDP where the model fits on a GPU, FSDP where it does not; ZeRO-2 for large models, ZeRO-3 for very large |
    | 001 | ZeRO-2 or ZeRO-3 from 48 GB on one node, FSDP or ZeRO-3 above 160 GB or on several nodes |
    | 002 | an example for ZeRO-2 and one for FSDP, without a choice between them |
    | 003, stack defaults | DDP, then FSDP where memory is short; ZeRO-2 at scale, ZeRO-3 only where nothing less fits |
    | 003, distributed training | DDP; FSDP or ZeRO-3 where the model does not fit; ZeRO-2 for short memory |
    | 004 | DDP first, then FSDP or DeepSpeed, whose advantages and drawbacks it compares |

    The rule books agree on DDP first, and recipec follows. They do not agree on what comes next: rule book 003 names
    both FSDP and ZeRO-2 for short memory, and rule books 000 and 004 do not rank them. FSDP2 before ZeRO-2 is recipec's
    choice. FSDP2 is part of PyTorch, so a bundle needs neither DeepSpeed nor a compiler for its operators; rule book
    004 counts that for FSDP too. And it shards the weights, which ZeRO-2 keeps whole on every GPU.

    ZeRO-2 gathers no weights and so needs less communication. The predicted times include that, and ZeRO-2 wins
    wherever it is faster by more than that. ZeRO-1 and ZeRO-2 remain where FSDP2 is not supported: an 8-bit base model
    (BAD-035) and optimizers of bitsandbytes (BAD-004). CPU offload needs ZeRO too (STRAT-002).
    """
    return Choice(fastest, _joined(STRATEGIES[fastest].because, compared, f"predicted peak {peak}"))


@rule(
    "STRAT-002",
    decides="offload",
    key="train.offload",
    watch="tokens_per_second: near the plan; with CPU offload it is far lower than without",
    source="docs/rule-books/003.md, Distributed training; docs/rule-books/001.md, Step 6; CPU/RAM guidelines; "
    "docs/rule-books/002.md, Step 2; docs/rule-books/004.md, FSDP and DeepSpeed compared (against: NVMe offload); "
    f"{_PREDICTED}",
)
def offload(least: str, peak: str, host_gib: float, compared: str) -> Choice:
    """CPU offload, of weights too with ZeRO-3: only where layouts without it do not fit or are clearly slower.

    Rule book 003 names ZeRO-3 with CPU offload, beside FSDP, where the model does not fit on a GPU. Rule book 001
    offloads optimizer and parameters in its ZeRO-3 configuration and recommends 128 GB of host memory per GPU for it.
    Rule book 002 leaves offload off. recipec tries it last, after sharding, after the other adaptations and after
    activations in host memory, because every optimizer step then waits for the link to the host and for an optimizer on
    the CPU.

    With ZeRO-3 `cpu` moves optimizer and weights, `optimizer` leaves the shards of the weights on the GPUs: they take
    more of their memory, and no pass over the model waits for weights from the host. Of the memory of a node recipec
    leaves 5% to the system and the file cache, and 10% where the memory is assumed.

    Rule book 004 counts NVMe offload for DeepSpeed. recipec does not offer it: DeepSpeed 0.19 resumed such a run from
    the wrong weights when it was tried (NOT-019). Rule book 004 also counts against FSDP that its offload is all or
    nothing, which is true of the first FSDP. recipec offers offload with ZeRO only.
    """
    if least == "none":
        return Choice(least, _joined("the layout fits without offload", compared, f"predicted peak {peak}"))
    hosted = f"what is offloaded takes {host_gib:.0f} GiB of each node's host memory"
    return Choice(least, _joined(compared or "layouts without offload do not fit or are clearly slower", hosted))


@rule(
    "STRAT-003",
    decides="micro_batch_size",
    key="train.micro_batch_size",
    watch="peak_memory_gib: near the plan; if the run is out of memory, halve `train.micro_batch_size`",
    source="docs/rule-books/003.md, Batch size & gradient accumulation; docs/rule-books/001.md, Decision tree: "
    f"available compute; Step 4; Rules; {_PREDICTED}",
)
def micro_batch_size(size: int, steps: int, peak: str, compared: str) -> Choice:
    """Micro batch: sequences that a GPU works on at once; the smallest that is about as fast as the fastest that fits.

    Rule book 001 wants the largest batch that the GPU memory holds, 1 to 2 under 16 GB and 2 to 8 up to 48 GB. Rule
    book 003 starts with 4 and halves it when memory runs out. recipec computes what fits and divides a GPU's share of
    the global batch, and how long a step takes with each. Of those within 2% of the fastest it takes the smallest: the
    micro batch changes speed and memory and nothing of what is learned, and memory that saves no time is better kept
    free. A smaller one that takes no less memory, because its gradients are accumulated, is not taken.
    """
    if steps == 1:
        why = "the rank's share of the global batch fits at once"
    elif size == 1:
        why = "more than one sequence at a time does not fit or is not faster"
    else:
        why = "the smallest within 2% of the fastest that fits and divides the rank's share of the global batch"
    return Choice(size, _joined(why, compared, f"predicted peak {peak}"))


@rule(
    "STRAT-004",
    decides="gradient_accumulation",
    watch="tokens_per_second: near the plan; gradient accumulation only splits the global batch",
    source="docs/rule-books/003.md, Batch size & gradient accumulation; docs/rule-books/001.md, Step 4; "
    "docs/rule-books/000.md, Gradient accumulation; docs/rule-books/004.md, Golden rules; Anti-patterns; "
    "docs/rule-books/002.md, Step 1; Best practices",
)
def gradient_accumulation(steps: int, global_batch_size: int, ranks: int, example: str, added_in: str = "") -> Choice:
    """Gradient accumulation: micro batches per optimizer step, what micro batch and ranks leave of the global batch.

    All five rule books use accumulation to reach a larger batch. Rule book 001 accumulates 8 and rule book 002 4 micro
    batches, rule book 003 what makes 32 or more. recipec fixes the global batch first (BATCH-001), so the hardware does
    not decide what is learned. Rule book 004 also wants fewer synchronizations, which accumulation gives under DDP.

    Where the ranks cannot make the global batch exactly, the nearest batch is taken, and the plan says so.

    DeepSpeed adds up the gradients of the micro batches in the type of its weights, bf16 or fp16 (0.19
    runtime/engine.py, get_data_types), where PyTorch's DDP and FSDP keep fp32 sums: the more micro batches, the more
    is rounded away. `grad_accum_dtype` of its configuration names another type, for memory that no plan counts.
    """
    size, on = counted(global_batch_size, example), counted(ranks, "data-parallel rank")
    added = f", whose gradients are added up in {added_in}" if added_in and steps > 1 else ""
    return Choice(steps, f"reaches the global batch of {size} on {on}{added}")


@rule(
    "STRAT-005",
    decides="checkpointing",
    key="train.activation_checkpointing",
    watch="tokens_per_second, peak_memory_gib: near the plan; off needs more memory, on needs a third more computation",
    source="docs/rule-books/004.md, Golden rules; Anti-patterns; docs/rule-books/001.md, Decision tree: available "
    f"compute; Step 4; Rules; docs/rule-books/000.md, Gradient checkpointing; {_PREDICTED}",
)
def checkpointing(every: int, on_host: bool, required: str, compared: str) -> Choice:
    """Gradient (activation) checkpointing: on where activations would not fit, or where memory comes first.

    It stores the input of a layer and recomputes the rest in the backward pass: about a third more computation for most
    of the memory of activations. Rule book 000 names it to save memory, rule book 004 against running out of memory on
    long sequences. Rule book 001 requires it above 7B parameters and under 16 GB, for what is not planned (PREC-004),
    lists it for full fine-tuning on 48 to 160 GB, and always sets it in its training arguments.

    The planner turns it on where `goal.priority` is "memory", and otherwise only where a layout does not fit without,
    or where a larger micro batch or a simpler strategy pays for it.
    """
    if not every:
        return Choice(False, _joined("activations fit without it", compared))
    part = f"only one of {every} layers is recomputed" if every > 1 else ""
    hosted = "inputs of recomputed layers wait in host memory" if on_host else ""
    others = compared or "layouts that keep activations do not fit or are slower"
    return Choice(True, _joined(required, others, part, hosted))


@rule(
    "STRAT-006",
    decides="world_size",
    watch="tokens_per_second: near the plan, summed over the GPUs that train",
    source=f"docs/rule-books/004.md, Anti-patterns; Golden rules; {_PREDICTED}; recipec's choice (idle GPUs)",
)
def world_size(
    ranks: int, gpus: int, micro_batches: int, noun: str, example: str, compared: str, served_by: int = 0
) -> Choice:
    """GPUs that train: all of them, unless more would not be clearly faster.

    No rule book speaks of idle GPUs. Rule book 004 calls communication the bottleneck and warns of small batches on
    many GPUs, against which it accumulates gradients. recipec draws the consequence: GPUs stay idle where the global
    batch has no sequence for them, and where no layout on more of them is faster by more than the estimates err. Idle
    GPUs are paid for, so the plan names them and what would use them (W0503). GPUs that serve answers do not train.
    """
    if ranks == gpus and served_by:
        rest = f"the other {counted(served_by, noun)} {'writes' if served_by == 1 else 'write'} the answers"
        return Choice(ranks, f"{rest}, and all that are left train")
    if ranks == gpus:
        return Choice(ranks, f"all {gpus} {noun}s train" if gpus > 1 else f"the recipe has one {noun}")
    if micro_batches < gpus:
        return Choice(ranks, f"the global batch has no {example} for the other {counted(gpus - ranks, noun)}")
    return Choice(ranks, _joined(f"no layout that fits on more of the {gpus} {noun}s is clearly faster", compared))


def _joined(*clauses: str) -> str:
    """The reason and what the chosen value was compared with."""
    return "; ".join(filter(None, clauses))
