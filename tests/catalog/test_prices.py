"""The price table: positive, dated and sourced, for GPUs of the catalog, and the median of what it names."""

from __future__ import annotations

import tomllib
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median

import pytest

from recipec import catalog
from recipec.catalog.gpus import gpu_names
from recipec.catalog.prices import price

TABLE = tomllib.loads((Path(catalog.__file__).parent / "prices.toml").read_text(encoding="utf-8"))
RULE_BOOK = {"a100-80gb": 3.0, "h100": 5.0, "l40s": 2.0, "rtx-4090": 0.5}  # rule book 001, cost estimation
KEYS = {"usd_per_hour", "clouds", "source", "checked"}


def test_most_gpus_have_a_price_and_all_prices_a_gpu() -> None:
    assert set(TABLE) <= set(gpu_names())
    assert len(TABLE) >= 22


@pytest.mark.parametrize("name", TABLE)
def test_a_price_is_positive_dated_and_sourced(name: str) -> None:
    entry = TABLE[name]
    assert entry.keys() == KEYS
    assert 0.05 < entry["usd_per_hour"] < 50
    assert date(2026, 5, 1) <= entry["checked"] <= date.today()
    assert "https://" in entry["source"]


@pytest.mark.parametrize("name", TABLE)
def test_a_price_is_the_median_of_its_clouds_to_the_cent(name: str) -> None:
    middle = Decimal(median(Decimal(str(usd)) for usd in TABLE[name]["clouds"].values()))
    assert Decimal(str(TABLE[name]["usd_per_hour"])) == middle.quantize(Decimal("0.01"), ROUND_HALF_UP)


@pytest.mark.parametrize("name", RULE_BOOK)
def test_the_figure_of_the_rule_book_is_named_where_it_has_one(name: str) -> None:
    found = price(name)
    assert found is not None
    assert found.source.split("rule book 001, cost estimation: ")[1].startswith(str(RULE_BOOK[name]))
    assert 0.8 < found.usd_per_hour / RULE_BOOK[name] < 1.25


def test_the_basis_is_short_and_the_source_is_whole() -> None:
    many, one = price("h100"), price("a10g")
    assert many is not None and one is not None
    assert (many.basis, one.basis) == ("median of 10 clouds, 2026-10", "AWS, 2026-06")
    assert many.source.startswith("checked 2026-10-10: https://")


def test_a_gpu_that_nobody_lists_has_no_price() -> None:
    assert price("h800") is None
