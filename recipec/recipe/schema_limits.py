"""The sections about what comes out and what it may cost: registry, budget, policy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recipec.recipe.fields import Line, Meanings, Section, Usd, key

Status = Annotated[
    Literal["experimental", "staging", "production", "archived"],
    Meanings("a try", "a candidate under test", "in use", "kept, no longer used"),
]
MOST_USD_PER_GPU_HOUR = 10_000  # our decision: over 1,000 times the dearest price of the catalog
_Names = Annotated[list[Line], Field(min_length=1, max_length=256)]


class Registry(Section):
    """The entry that describes the result."""

    status: Status | None = key("Status", "Where the result stands.", "staging", default="experimental")
    tags: Annotated[list[Line], Field(max_length=64)] | None = key("Tags", "Tags of the entry.", ["support"])


class Budget(Section):
    """What the run may cost; a plan that exceeds it is an error that names the cheapest plan."""

    max_hours: Annotated[float, Field(gt=0, le=87_600)] | None = key("Hours", "The longest run, in hours.", 12)
    max_cost_usd: Usd | None = key("Cost", "The highest cost of the run, in US dollars.", 200)
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=MOST_USD_PER_GPU_HOUR)] | None = key(
        "Price", "What one GPU costs for an hour, in US dollars.", 2.5
    )
    prices: Line | None = key(
        "Prices",
        "A TOML file of prices in place of the shipped ones: a table for each GPU, with `usd_per_hour`.",
        "./prices.toml",
    )


class Policy(Section):
    """Limits in a shared recipe that the recipes extending it may narrow but not break."""

    models: _Names | None = key("Models", "Patterns of the models that may be used.", ["Qwen/*"])
    licences: _Names | None = key("Licences", "Licences that the model may have.", ["apache-2.0", "mit"])
    max_gpus: Annotated[int, Field(ge=1, le=65_536)] | None = key("GPUs", "The most GPUs of one run.", 4)
    max_usd: Usd | None = key("Cost", "The highest cost of one run, in US dollars.", 500)
