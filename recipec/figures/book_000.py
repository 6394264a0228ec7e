"""Figures of rule book 000: GPU counts per strategy, and the share of parameters that LoRA trains."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA
from recipec.axes.strategies import DDP, FSDP, ZERO2, ZERO3, Strategy
from recipec.figures.figure import Ours, about, figure
from recipec.figures.trainings import GPUS_PER_NODE, Training, adapter_percent, card_gb, fewest_gpus, speed

_TABLE = "docs/rule-books/000.md, Strategy table"
_CARD = "a100-80gb"
_NETWORK_GBPS = 400.0
_SLOW_GBPS = 25.0
_DECIDES = "gives no strategy a GPU count: every strategy is laid out on the GPUs there are, and the best one is taken"


def _sharded(strategy: Strategy, most: int) -> Ours:
    """The fewest cards that hold full fine-tuning of 7B, and how the most that the book names scales."""
    fewest = fewest_gpus("7B", FULL, strategy, _CARD)
    how = f"fewest {_CARD} (80 GB) that hold {Training('7B', FULL, strategy, fewest)}; {_scales(strategy, most)}"
    return Ours(fewest, how)


def _scales(strategy: Strategy, most: int) -> str:
    job, node = (Training("7B", FULL, strategy, ranks, micro_batch=4) for ranks in (most, GPUS_PER_NODE))
    many = speed(job, _CARD, _NETWORK_GBPS).tokens_per_second_per_gpu
    kept = 100 * many / speed(node, _CARD).tokens_per_second_per_gpu
    return f"{most} of them keep {kept:.0f} % of the speed per GPU of one node, over {_NETWORK_GBPS:g} Gbit/s"


@figure("FIG-001", "DDP: on 2 to 8 GPUs", about(2, "GPUs"), book=_TABLE, does=_DECIDES)
def ddp_gpus() -> Ours:
    """DDP starts where there is more than one GPU. Its end is no count either: adapters have small gradients, so more
    nodes keep the speed even over a slow network.
    """
    job, wide = (Training("7B", LORA, DDP, ranks, micro_batch=4) for ranks in (2, 2 * GPUS_PER_NODE))
    many = speed(wide, _CARD, _SLOW_GBPS).tokens_per_second_per_gpu
    kept = 100 * many / speed(job, _CARD).tokens_per_second_per_gpu
    how = f"the least that shares a batch; over {_SLOW_GBPS:g} Gbit/s {kept:.0f} % of the speed per GPU is left: {wide}"
    return Ours(job.ranks, how)


@figure("FIG-002", "FSDP: from 2 GPUs (2-128+)", about(2, "GPUs"), book=_TABLE, does=_DECIDES)
def fsdp_gpus() -> Ours:
    """Two cards are enough for a 7B model; a larger model needs more, so the count follows from the model."""
    return _sharded(FSDP, 128)


@figure("FIG-003", "ZeRO-2: from 2 GPUs (2-64)", about(2, "GPUs"), book=_TABLE, does=_DECIDES)
def zero2_gpus() -> Ours:
    """Two cards are enough for a 7B model, although every card holds all weights."""
    return _sharded(ZERO2, 64)


@figure("FIG-004", "ZeRO-3: from 8 GPUs (8-256+)", about(8, "GPUs"), book=_TABLE, does=_DECIDES)
def zero3_gpus() -> Ours:
    """ZeRO-3 holds what FSDP holds, which the same table starts at 2. Rule book 003 has no such limit either."""
    return _sharded(ZERO3, 256)


@figure(
    "FIG-005",
    "DeepSpeed-MoE: from 8 GPUs (8-256+)",
    about(8, "GPUs"),
    book=_TABLE,
    does="trains mixtures with DeepSpeed-MoE where a recipe pretrains them with a loop on DeepSpeed, from 2 GPUs on",
    rules=("MOE-001", "MOE-004"),
)
def moe_gpus() -> Ours:
    """The number follows from the model and the cards: ZeRO needs two, and expert parallelism any that divides them."""
    return Ours(
        None, "any number of GPUs from 2 on that experts and ranks divide by; the plan says what the model needs"
    )


@figure("FIG-006", "LoRA: from 1 GPU", about(1, "GPUs"), book=_TABLE, does=_DECIDES, rules=("ADPT-001",))
def lora_gpus() -> Ours:
    """One card is enough for 7B and not for 70B: the count follows from the model."""
    cards = [-(-card_gb(Training(size, LORA)) // 80) for size in ("7B", "70B")]
    return Ours(cards[0], f"80 GB cards that hold {Training('7B', LORA)}; for 70B {cards[1]:.0f}")


@figure(
    "FIG-007",
    "LoRA trains about 1 % of the parameters",
    about(1, "%"),
    book=_TABLE,
    does="counts the adapters of the model and rank at hand",
    rules=("ADPT-001", "LORA-001"),
)
def lora_share() -> Ours:
    """The share follows from rank and targets. At rank 16 on all linear layers it is under 1 % and falls with the
    size of the model.
    """
    shares = [f"{adapter_percent(size):.2f} % of {size}" for size in ("13B", "70B")]
    how = f"rank 16 on all linear layers of Llama-2-7b-hf; {' and '.join(shares)}"
    return Ours(adapter_percent("7B"), how)
