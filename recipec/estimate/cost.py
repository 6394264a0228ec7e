"""Money: hours of all GPUs times the price of one."""

from __future__ import annotations

from msgspec import Struct

from recipec.units import hourly


class Cost(Struct, frozen=True):
    """Time of a run and its price; None where no price is known."""

    seconds: float
    usd: float | None
    because: str


def run_cost(
    seconds: float,
    gpus: int,
    usd_per_gpu_hour: float | None,
    basis: str,
    device: str = "GPU",
    run: str = "the whole run",
) -> Cost:
    """Cost of `gpus` for `seconds` in US dollars; `basis` says in a few words where the price, or its lack, is from.

    `run` names what takes so long.
    """
    hours = seconds / 3600 * gpus
    used = f"{_amount(round(seconds) / 3600 * gpus, device)} of {run}"  # as the time itself is rounded
    if usd_per_gpu_hour is None:
        return Cost(seconds, None, f"{used}; {basis}")
    return Cost(seconds, hours * usd_per_gpu_hour, f"{used} at {hourly(usd_per_gpu_hour)} an hour ({basis})")


def _amount(hours: float, device: str) -> str:
    """3.0 GPU hours; of a short run GPU minutes or seconds."""
    if hours >= 1:
        return f"{hours:,.1f} {device} hours"
    return f"{60 * hours:.0f} {device} minutes" if 60 * hours >= 2 else f"{3600 * hours:.0f} {device} seconds"
