"""Money: hours of all GPUs times the price of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of a run; None where no price is known."""

    usd: float | None
    because: str


def run_cost(seconds: float, gpus: int, usd_per_gpu_hour: float | None, basis: str, device: str = "GPU") -> Cost:
    """Cost of `gpus` for `seconds` in US dollars; `basis` says in a few words where the price, or its lack, is from."""
    hours = seconds / 3600 * gpus
    if usd_per_gpu_hour is None:
        return Cost(None, f"{hours:,.1f} {device} hours; {basis}")
    return Cost(hours * usd_per_gpu_hour, f"{hours:,.1f} {device} hours at ${usd_per_gpu_hour:g} ({basis})")
