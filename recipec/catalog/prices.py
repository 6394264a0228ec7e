"""What an hour of a GPU costs: the shipped table, which carries dates and sources."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

_FILE = Path(__file__).parent / "prices.toml"


class Price(Struct, frozen=True):
    """What one GPU costs for an hour, in US dollars."""

    usd_per_hour: float
    basis: str  # in a few words: "median of 10 clouds, 2026-10"
    source: str  # where the figures were read, and when


def price(gpu: str) -> Price | None:
    """The on-demand price of the catalog's GPU called `gpu`; None where no cloud is known to list it."""
    entry = _table().get(gpu)
    if entry is None:
        return None
    clouds, checked = entry["clouds"], entry["checked"]
    basis = f"median of {len(clouds)} clouds" if len(clouds) > 1 else next(iter(clouds))
    return Price(entry["usd_per_hour"], f"{basis}, {checked:%Y-%m}", f"checked {checked}: {entry['source']}")


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
