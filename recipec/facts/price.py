"""What an hour of the GPU costs: as the recipe says, as a table that it names says, or as the catalog knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.prices import price
from recipec.diagnostics.model import Report
from recipec.facts.fact import stated
from recipec.facts.price_table import read_table, table_findings
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import relative_to
from recipec.rules.core import Decision

_KEY = "budget.price_per_gpu_hour"


def price_fact(loaded: LoadedRecipe, gpu: Gpu, own: Mapping[str, Decision]) -> Decision:
    """US dollars for an hour of one GPU: the recipe's price, else its own table's, else the catalog's, else None."""
    usd = loaded.recipe.budget.price_per_gpu_hour
    if usd is not None:
        return stated(loaded, "gpu_price", usd, "budget", "price_per_gpu_hour")
    if gpu.name in own:
        return own[gpu.name]
    return price_of(gpu)


def price_of(gpu: Gpu) -> Decision:
    """What the catalog says of a GPU's price; None where no cloud is known to list it."""
    shipped = price(gpu.name)
    if shipped is None:
        return _of_the_catalog(None, f"no price is known for {gpu.name}, see {_KEY}")
    return _of_the_catalog(shipped.usd_per_hour, f"{shipped.basis}; own price: {_KEY}", shipped.source)


def _of_the_catalog(usd: float | None, because: str, source: str = "") -> Decision:
    return Decision("gpu_price", usd, because, ("gpu",), origin="catalog", source=source, key=_KEY)


def own_prices(loaded: LoadedRecipe, report: Report) -> dict[str, Decision]:
    """The prices of the table that budget.prices names, by the catalog's names of the GPUs.

    Reports E0001 to E0006 and E01xx for a file, and E02xx, E0302 and E0401 for a table, that cannot be used.
    """
    document = read_table(loaded, report)
    findings = list(table_findings(document)) if document else []
    for finding in findings:
        report.add(finding)
    if document is None or findings:
        return {}
    file = relative_to(loaded.folder, document.source.path)
    return {
        card.name: _own(entry, f"{file}:{document.places[(name,)].key.span.line}")
        for name, entry in document.data.items()
        if (card := gpu(name))
    }


def _own(entry: Mapping[str, Any], where: str) -> Decision:
    dated = f", {entry['checked']:%Y-%m}" if "checked" in entry else ""
    return Decision(
        "gpu_price",
        entry["usd_per_hour"],
        f"set in {where}{dated}",
        ("gpu",),
        origin="recipe",
        source=entry.get("source", ""),
        key="budget.prices",
        where=where,
    )
