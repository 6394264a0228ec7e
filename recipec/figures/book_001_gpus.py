"""Figures of rule book 001 on GPUs: its table of cards, and what trains on one card."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA, QLORA
from recipec.figures.figure import Figure, Ours, about, at_least, at_most, figure
from recipec.figures.trainings import Training, adapter_percent, card_gb, gpu, speed

_COMPUTE, _STEP_1 = "docs/rule-books/001.md, Compute", "docs/rule-books/001.md, Step 1"
_COUNTS = "counts the adapters of the model and rank at hand"
_COMPUTES = "computes what fits on the card at hand, and shards over several where one does not do"
_CARDS = {"rtx-4090": 24, "a100-80gb": 80, "h100": 80, "h200": 141, "mi300x": 192}  # GB, as the table has them


@figure("FIG-101", "LoRA: about 1 % of parameters", about(1, "%"), book=_STEP_1, does=_COUNTS, rules=("LORA-001",))
def lora_share() -> Ours:
    """The share follows from rank and targets. At rank 16 on all linear layers it is under 1 %."""
    return Ours(adapter_percent("7B"), "rank 16 on all linear layers of Llama-2-7b-hf")


@figure("FIG-102", "QLoRA: about 0.5 % of parameters", about(0.5, "%"), book=_STEP_1, does=_COUNTS, rules=("LORA-001",))
def qlora_share() -> Ours:
    """QLoRA has the same adapters as LoRA: the book gives one share two figures."""
    return Ours(adapter_percent("7B"), "rank 16 on all linear layers of Llama-2-7b-hf, as in FIG-101")


def _rate(id: str, card: str, stated_tflops: float, why: str) -> Figure:
    """The dense 16-bit matrix rate of one card."""

    def rate() -> Ours:
        entry = gpu(card)
        return Ours(entry.bf16_tflops or entry.fp16_tflops, f"catalog, {card}: {entry.source}, checked {entry.checked}")

    rate.__doc__ = why
    states, does = f"{card}: {stated_tflops:g} TFLOPS", "times steps with a share of the catalog's rate"
    return figure(id, states, about(stated_tflops, "TFLOPS"), book=_COMPUTE, does=does)(rate)


RATES = [
    _rate("FIG-103", "rtx-4090", 82, "82 is the rate of its vector units; tensor cores have twice that, in bf16 too."),
    _rate("FIG-104", "a100-80gb", 312, "The dense tensor rate of the data sheet."),
    _rate("FIG-105", "h100", 989, "The dense tensor rate of the SXM card; a PCIe card has less."),
    _rate("FIG-106", "h200", 989, "An H100 with more and faster memory."),
    _rate("FIG-107", "mi300x", 653, "653 is its TF32 rate; bf16 has twice that."),
]


@figure(
    "FIG-108",
    "Cards have the VRAM of their names",
    about(100, "%"),
    book=_COMPUTE,
    does="plans with what the driver reports, less what it and the allocator keep",
)
def vram_of_cards() -> Ours:
    """Drivers report nearly the nominal GB as GiB; the H200's 141 and the MI300X's 192 are close too."""
    shares = {card: 100 * gpu(card).memory_gib / stated for card, stated in _CARDS.items()}
    least = min(shares, key=shares.__getitem__)
    rows = ", ".join(f"{card} {gpu(card).memory_gib:g} of {stated}" for card, stated in _CARDS.items())
    return Ours(shares[least], f"the least of the table, GiB that drivers report of the stated GB: {rows}")


def _best_for(id: str, card: str, states: str, job: Training, why: str) -> Figure:
    """A "Best For" entry: the largest job that one card is said to do."""

    def needed() -> Ours:
        return Ours(card_gb(job), f"peak on the card: {job}")

    needed.__doc__ = why
    memory_gb = _CARDS[card]
    text = f"{card}, {memory_gb} GB: {states}"
    return figure(id, text, at_most(memory_gb, "GB"), book=_COMPUTE, does=_COMPUTES)(needed)


_NODE = "Several cards do it, one does not: full fine-tuning with AdamW is 16 bytes per parameter."
BEST_FOR = [
    _best_for("FIG-109", "rtx-4090", "QLoRA up to 13B", Training("13B", QLORA), "It fits with room."),
    _best_for("FIG-110", "rtx-4090", "LoRA up to 13B", Training("13B", LORA), "13B in bf16 alone are 26 GB."),
    _best_for("FIG-111", "a100-80gb", "full fine-tuning up to 13B", Training("13B", FULL), _NODE),
    _best_for("FIG-112", "a100-80gb", "LoRA up to 70B", Training("70B", LORA), "70B in bf16 are 138 GB; 4-bit fits."),
    _best_for("FIG-113", "h100", "full fine-tuning up to 70B", Training("70B", FULL), _NODE),
    _best_for("FIG-114", "h200", "full fine-tuning of 70B and more", Training("70B", FULL), _NODE),
]


@figure(
    "FIG-115",
    "mi300x: an alternative to the h100",
    at_least(1, "x"),
    book=_COMPUTE,
    does="plans for it; the share of its peak rate that it reaches is an assumption",
)
def mi300x_for_h100() -> Ours:
    """It has more memory and, by the estimate, at least the speed. No published AMD run is behind that."""
    job = Training("7B", LORA, micro_batch=4)
    rates = [speed(job, card).tokens_per_second_per_gpu for card in ("mi300x", "h100")]
    how = f"{rates[0]:,.0f} against {rates[1]:,.0f} tokens/s: {job}"
    return Ours(rates[0] / rates[1], how)
