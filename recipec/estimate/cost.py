"""Money: GPU hours times a price that the recipe states or the catalog knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Priced(Protocol):
    """A catalog GPU."""

    name: str
    price_usd_per_hour: float | None
    price_source: str | None


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of a run; None where no price is known."""

    gpu_hours: float
    usd: float | None
    because: str


def run_cost(seconds: float, gpus: int, gpu: Priced, price_per_gpu_hour: float | None = None) -> Cost:
    """Cost of `gpus` for `seconds`; `price_per_gpu_hour` (US dollars) is the recipe's own price."""
    hours = seconds / 3600 * gpus
    price = gpu.price_usd_per_hour if price_per_gpu_hour is None else price_per_gpu_hour
    if price is None:
        return Cost(
            hours, None, f"{hours:.1f} GPU hours; no price is known for {gpu.name}, see budget.price_per_gpu_hour"
        )
    origin = gpu.price_source or "catalog" if price_per_gpu_hour is None else "budget.price_per_gpu_hour"
    return Cost(hours, hours * price, f"{hours:.1f} GPU hours at ${price:g} ({origin})")
