"""Figures of rule book 004: memory per strategy and precision, and the price of recomputation."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA, QLORA
from recipec.axes.strategies import FSDP, ZERO1, ZERO2, ZERO3, Strategy
from recipec.figures.figure import Figure, Ours, about, at_least, figure
from recipec.figures.trainings import (
    GB,
    Training,
    activations_gb,
    architecture,
    card_gb,
    sharding_saves,
    speed,
    states_gb,
)

_RULES = "docs/rule-books/004.md, Golden rules"
_ZERO = "docs/rule-books/004.md, Zero redundancy"
_SIZES = "docs/rule-books/004.md, Memory requirements"
_COMPUTES = "computes the memory of the model, strategy and GPUs at hand, and shows it term by term"
_RECOMPUTES = "recomputes where activations do not fit or memory comes first, and times both ways"


def _recomputed_and_kept() -> tuple[Training, Training]:
    return Training("7B", FULL, micro_batch=4), Training("7B", FULL, micro_batch=4, checkpointing=False)


@figure(
    "FIG-401", "Gradient checkpointing: 30 % slower", about(30, "%"), book=_RULES, does=_RECOMPUTES, rules=("PREC-004",)
)
def recomputing_costs() -> Ours:
    """A forward is repeated, a third of the forward and backward of full fine-tuning. LoRA has no weight gradients,
    so the repeated forward weighs more.
    """
    recomputed, kept = _recomputed_and_kept()
    slower = [_slower(recomputed, kept), _slower(Training("7B", LORA), Training("7B", LORA, checkpointing=False))]
    return Ours(slower[0], f"{recomputed}, against activations kept, on an A100; {slower[1]:.0f} % for LoRA")


def _slower(recomputed: Training, kept: Training) -> float:
    """Percent more time per step."""
    return 100 * (speed(recomputed, "a100").seconds_per_step / speed(kept, "a100").seconds_per_step - 1)


@figure(
    "FIG-402",
    "Gradient checkpointing saves 60 % or more",
    at_least(60, "%"),
    book=_RULES,
    does=_RECOMPUTES,
    rules=("PREC-004",),
)
def recomputing_saves() -> Ours:
    """It holds for the activations alone. Of the whole memory the share depends on what else is there: little of full
    fine-tuning with its 16 bytes per parameter, more of LoRA.
    """
    recomputed, kept = _recomputed_and_kept()
    lora = _saved(Training("7B", LORA, micro_batch=4), Training("7B", LORA, micro_batch=4, checkpointing=False))
    activations = 100 * (1 - activations_gb(recomputed) / activations_gb(kept))
    how = f"{recomputed}, against activations kept; {activations:.0f} % of the activations, {lora:.0f} % with LoRA"
    return Ours(_saved(recomputed, kept), how)


def _saved(recomputed: Training, kept: Training) -> float:
    """Percent less memory on the card."""
    return 100 * (1 - card_gb(recomputed) / card_gb(kept))


@figure(
    "FIG-403",
    "bf16 or fp16 saves 2x memory",
    about(2, "x"),
    book="docs/rule-books/004.md, Golden rules; Anti-patterns",
    does="trains in bf16 where the GPU has it, and counts fp32 masters and states",
    rules=("PREC-001",),
)
def half_precision_saves() -> Ours:
    """Weights, gradients and Adam's states are 16 bytes per parameter either way: what halves is the activations, and
    frozen weights under LoRA.
    """
    full, lora = (card_gb(Training("7B", way, precision="fp32")) / card_gb(Training("7B", way)) for way in (FULL, LORA))
    return Ours(full, f"{Training('7B', FULL)}, against fp32; {lora:.1f}x for LoRA, whose base is frozen")


def _zero(stage: Strategy) -> Ours:
    how = f"weights, gradients and optimizer states of 7B on 8 GPUs; {sharding_saves(stage, 64):.1f}x on 64"
    return Ours(sharding_saves(stage, 8), how)


@figure("FIG-404", "ZeRO-1 saves 4x memory", about(4, "x"), book=_ZERO, does=_COMPUTES)
def zero1_saves() -> Ours:
    """4x is the limit for very many GPUs: bf16 weights and gradients, 4 of 16 bytes, stay whole on every GPU."""
    return _zero(ZERO1)


@figure("FIG-405", "ZeRO-2 saves 8x memory", about(8, "x"), book=_ZERO, does=_COMPUTES)
def zero2_saves() -> Ours:
    """8x is the limit for very many GPUs: the bf16 weights, 2 of 16 bytes, stay whole on every GPU."""
    return _zero(ZERO2)


@figure("FIG-406", "ZeRO-3 scales linearly: 8x on 8 GPUs", about(8, "x"), book=_ZERO, does=_COMPUTES)
def zero3_saves() -> Ours:
    """Everything that is kept between steps is sharded. Activations and gathered layers are not."""
    return _zero(ZERO3)


def _weights(id: str, size: str, name: str, bytes_each: int, stated_gb: float) -> Figure:
    """The weights of one size in one type."""

    def stored() -> Ours:
        shape = architecture(size)
        return Ours(bytes_each * shape.params / GB, f"{shape.params / 1e9:.2f} billion parameters x {bytes_each} bytes")

    stored.__doc__ = "The weights alone; the sizes in model names are rounded."
    states = f"{size} in {name}: {stated_gb:g} GB"
    return figure(id, states, about(stated_gb, "GB"), book=_SIZES, does=_COMPUTES)(stored)


WEIGHTS = [
    _weights("FIG-407", "7B", "fp32", 4, 28),
    _weights("FIG-408", "7B", "fp16", 2, 14),
    _weights("FIG-411", "70B", "fp32", 4, 280),
    _weights("FIG-412", "70B", "fp16", 2, 140),
]


@figure("FIG-409", "7B with Adam: 84 GB", about(84, "GB"), book=_SIZES, does=_COMPUTES)
def adam_7b() -> Ours:
    """84 GB are 12 bytes per parameter: one fp32 copy is missing. The book's own 14 GB on 8 GPUs (FIG-410) are 112."""
    job = Training("7B", FULL)
    each = states_gb(job) * GB / job.architecture.params
    return Ours(states_gb(job), f"weights, gradients and AdamW states: {each:.0f} bytes per parameter; {job}")


@figure("FIG-410", "7B fully sharded on 8 GPUs: 14 GB each", about(14, "GB"), book=_SIZES, does=_COMPUTES)
def sharded_7b() -> Ours:
    """It holds for what is kept between steps. A card needs more: activations, gathered layers, fragments, NCCL."""
    job = Training("7B", FULL, FSDP, 8)
    return Ours(states_gb(job), f"weights, gradients and AdamW states; the card must have {card_gb(job):.1f} GB: {job}")


@figure("FIG-413", "QLoRA of 70B: about 48 GB", about(48, "GB"), book=_SIZES, does=_COMPUTES, rules=("ADPT-001",))
def qlora_70b() -> Ours:
    """It holds for a short batch on one card."""
    return Ours(card_gb(Training("70B", QLORA)), f"peak on the card: {Training('70B', QLORA)}")
