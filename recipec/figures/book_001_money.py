"""Figures of rule book 001 on money and speed-ups: prices, its three examples, torch.compile."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA
from recipec.axes.strategies import FSDP
from recipec.catalog.prices import price
from recipec.estimate.cost import run_cost
from recipec.figures.figure import Figure, Ours, about, between, figure
from recipec.figures.trainings import Training, card_gb, speed

_COST = "docs/rule-books/001.md, Cost estimation"
_PRICES = "uses ours unless budget.price_per_gpu_hour states the real one, and names the origin beside every cost"
_TIMES = "predicts the hours of the plan and multiplies them, instead of taking them as given"
_HOURS_PER_MONTH = 720


def _price(id: str, card: str, stated_usd: float) -> Figure:
    """The price of one card."""

    def our_price() -> Ours:
        known = price(card)
        return Ours(None, "no price known") if known is None else Ours(known.usd_per_hour, f"{known.basis}: {card}")

    our_price.__doc__ = "A price is no estimate and changes by provider and week: ours is a dated median of clouds."
    return figure(id, f"{card}: ${stated_usd:.2f} an hour", about(stated_usd, "$"), book=_COST, does=_PRICES)(our_price)


PRICES = [
    _price("FIG-126", "a100-80gb", 3.0),
    _price("FIG-127", "h100", 5.0),
    _price("FIG-128", "rtx-4090", 0.5),
    _price("FIG-129", "l40s", 2.0),
]


@figure(
    "FIG-130",
    "Any other GPU: $3.00 an hour",
    about(3, "$"),
    book=_COST,
    does="shows no cost for a card without a price, and refuses a cost limit that it cannot check (E0403)",
)
def other_price() -> Ours:
    """One price for cards from T4 to B200 is wrong by far either way."""
    prices = [known.usd_per_hour for known in (price("t4"), price("b200")) if known]
    low, high = min(prices), max(prices)
    return Ours(None, "dated medians of clouds: t4 and b200", f"${low:.2f} to ${high:.2f}")


def _cost(hours: float, job: Training, card: str) -> tuple[float | None, str]:
    """Cost of a job that runs for `hours`, and what it trains in that time."""
    tokens = speed(job, card).tokens_per_second_per_gpu * job.ranks * hours * 3600
    known = price(card)
    assert known is not None
    cost = run_cost(hours * 3600, job.ranks, known.usd_per_hour, known.basis)
    return cost.usd, f"{cost.because}; in that time about {tokens / 1e9:,.2f} billion tokens by {job}"


@figure("FIG-131", "LoRA 7B, one A100, 4 hours: $12", about(12, "$"), book=_COST, does=_TIMES)
def lora_example() -> Ours:
    """The product of hours and price, with today's price."""
    return Ours(*_cost(4, Training("7B", LORA, micro_batch=4), "a100-80gb"))


@figure("FIG-132", "Full fine-tuning of 70B, 8x H100, a day: $960", about(960, "$"), book=_COST, does=_TIMES)
def full_70b_example() -> Ours:
    """The product, with today's price. The run does not fit on 8 cards of 80 GB without offload."""
    job = Training("70B", FULL, FSDP, 8)
    usd, how = _cost(24, job, "h100")
    return Ours(usd, f"{how}; every card would need {card_gb(job):.0f} GB")


@figure("FIG-133", "Pretraining of 8B, 256x H100, 30 days: $921,600", about(921_600, "$"), book=_COST, does=_TIMES)
def pretraining_example() -> Ours:
    """The product, with today's price. It buys about the 1T tokens that the book asks of pretraining."""
    return Ours(*_cost(_HOURS_PER_MONTH, Training("8B", FULL, FSDP, 256, seq_len_tokens=8192), "h100"))


@figure(
    "FIG-134",
    "torch.compile: 10-30 % more throughput",
    between(10, 30, "%"),
    book="docs/rule-books/001.md, Rules",
    does="leaves it off and counts no gain in the plan; `train.compile = true` turns it on",
    rules=("PREC-003",),
)
def compile_gain() -> Ours:
    """The estimates do not model compiled kernels. Published: 1.41x in training on an A100, the geometric mean of 180
    models at fixed shapes (Ansel et al., PyTorch 2, ASPLOS 2024). Batches of changing length get less of it.
    """
    return Ours(None, "not modelled: the time estimate is of eager kernels")
