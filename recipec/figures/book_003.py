"""Figures of rule book 003: memory of LoRA, QLoRA and full fine-tuning."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA, QLORA
from recipec.axes.strategies import ZERO2
from recipec.figures.figure import Figure, Ours, about, at_most, between, figure
from recipec.figures.trainings import GB, Training, card_gb, memory, sharding_saves, states_gb

_STACK, _REFERENCE = "docs/rule-books/003.md, Stack defaults", "docs/rule-books/003.md, Reference"
_COMPUTES = "computes the memory of the model, rank, batch and length at hand, and shows it term by term"
_ORDERS = "orders the adaptations by rule ADPT-001 and takes the first that fits"
_QLORA_BOUND = "The book's number leaves room for a longer batch, or for trainers that keep all logits."


def _card(job: Training) -> Ours:
    return Ours(card_gb(job), f"peak on the card: {job}")


@figure(
    "FIG-301",
    "LoRA saves 80 % of full fine-tuning's VRAM",
    about(80, "%"),
    book=_STACK,
    does="tries LoRA first wherever no rule asks for full fine-tuning",
    rules=("ADPT-001",),
)
def lora_saves() -> Ours:
    """It holds against 16 bytes per parameter. The book's own 16.9 and 29.5 GB would save only 43 %."""
    lora, full = card_gb(Training("7B", LORA)), card_gb(Training("7B", FULL))
    return Ours(
        100 * (1 - lora / full), f"{lora:.1f} of {full:.1f} GB: {Training('7B', LORA)}, against full fine-tuning"
    )


@figure(
    "FIG-302",
    "QLoRA of 7B fits an 8 GB GPU",
    at_most(8, "GB"),
    book=_STACK,
    does="tries QLoRA where LoRA does not fit, and first under 16 GB",
    rules=("ADPT-001",),
)
def qlora_7b_fits() -> Ours:
    """It fits with room, because TRL computes the loss in chunks and no logits are kept. With the book's own "about
    8 GB" (FIG-309) it would not.
    """
    return _card(Training("7B", QLORA))


@figure(
    "FIG-303",
    "QLoRA of 13B fits a 16 GB GPU",
    at_most(16, "GB"),
    book=_STACK,
    does="tries QLoRA where LoRA does not fit",
    rules=("ADPT-001",),
)
def qlora_13b_fits() -> Ours:
    """It fits with room."""
    return _card(Training("13B", QLORA))


@figure("FIG-304", "ZeRO-2 saves 8x memory", about(8, "x"), book=_STACK, does=_COMPUTES)
def zero2_saves() -> Ours:
    """8x is the limit for very many GPUs: the bf16 weights stay whole on every GPU. Rule book 004 says the same."""
    how = f"weights, gradients and optimizer states of 7B on 8 GPUs; {sharding_saves(ZERO2, 64):.1f}x on 64"
    return Ours(sharding_saves(ZERO2, 8), how)


def _times_model_size() -> Ours:
    full, weights = Training("7B", FULL), 2 * Training("7B", FULL).architecture.params / GB
    how = f"{card_gb(full):.1f} GB of {full} over {weights:.1f} GB of bf16 weights"
    return Ours(card_gb(full) / weights, how)


@figure(
    "FIG-305",
    "Full fine-tuning from VRAM = 4 x model size",
    about(4, "x"),
    book="docs/rule-books/003.md, Which fine-tuning method",
    does="does not use the threshold: full fine-tuning is taken where its computed memory fits",
    rules=("ADPT-001",),
)
def full_threshold() -> Ours:
    """AdamW in mixed precision takes 16 bytes per parameter before any activation: 8 times the bf16 weights."""
    return _times_model_size()


@figure(
    "FIG-306",
    "Full fine-tuning takes 4-6x the model size",
    between(4, 6, "x"),
    book="docs/rule-books/003.md, Anti-patterns",
    does=_COMPUTES,
    rules=("ADPT-001",),
)
def full_takes() -> Ours:
    """4x to 6x would hold for bf16 weights without fp32 masters, or with 8-bit states; AdamW needs 8x."""
    return _times_model_size()


@figure("FIG-307", "LoRA of 7B, rank 16: about 16.9 GB", about(16.9, "GB"), book=_REFERENCE, does=_COMPUTES)
def lora_7b() -> Ours:
    """It holds for short batches. A longer batch takes more: activations grow with the tokens."""
    longer = Training("7B", LORA, micro_batch=4)
    how = f"peak on the card: {Training('7B', LORA)}; {card_gb(longer):.1f} GB with {longer.micro_batch} sequences"
    return Ours(card_gb(Training("7B", LORA)), how)


@figure("FIG-308", "Full fine-tuning of 7B: about 29.5 GB", about(29.5, "GB"), book=_REFERENCE, does=_COMPUTES)
def full_7b() -> Ours:
    """The book's formula, model + gradients + activations, leaves out the optimizer: masters and two states."""
    estimate = memory(Training("7B", FULL))
    moments = estimate.terms["optimizer_states"] / GB
    how = f"peak on the card: {Training('7B', FULL)}; AdamW's two states are {moments:.1f} GB of it"
    return Ours(card_gb(Training("7B", FULL)), how)


def _qlora(id: str, size: str, stated_gb: float) -> Figure:
    """The row of one size: its docstring is that of all sizes."""

    def needed() -> Ours:
        return _card(Training(size, QLORA))

    needed.__doc__ = f"4-bit weights take half a byte and the head stays in bf16. {_QLORA_BOUND}"
    states = f"QLoRA of {size}: about {stated_gb:g} GB"
    return figure(id, states, about(stated_gb, "GB"), book=_REFERENCE, does=_COMPUTES, rules=("ADPT-001",))(needed)


QLORA_SIZES = [_qlora(*row) for row in (("FIG-309", "7B", 8), ("FIG-310", "13B", 14), ("FIG-311", "34B", 22))]


@figure(
    "FIG-312",
    "8-24 GB: QLoRA",
    at_most(24, "GB"),
    book="docs/rule-books/003.md, Which fine-tuning method",
    does="tries LoRA first here too, and takes QLoRA where LoRA does not fit or the recipe puts memory first",
    rules=("ADPT-001",),
)
def qlora_branch() -> Ours:
    """The book's 34B needs a little more than the upper end; 7B fits there with LoRA too, in 17 GB."""
    return _card(Training("34B", QLORA))


@figure(
    "FIG-313",
    "24-80 GB: LoRA",
    at_most(80, "GB"),
    book="docs/rule-books/003.md, Which fine-tuning method",
    does=_ORDERS,
    rules=("ADPT-001",),
)
def lora_branch() -> Ours:
    """Even the book's 34B fits the upper end, just."""
    return _card(Training("34B", LORA))


@figure("FIG-314", "LoRA: model in fp16 x 1.1, and the rest", about(1.1, "x"), book=_REFERENCE, does=_COMPUTES)
def lora_weights() -> Ours:
    """Adapters, their gradients and states add a few percent of the model at rank 16, and more at a higher rank."""
    job = Training("7B", LORA)
    times = states_gb(job) * GB / (2 * job.architecture.params)
    return Ours(times, f"what is kept between steps, over the bf16 model: {job}")
