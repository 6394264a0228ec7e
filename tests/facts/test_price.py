"""Whose price counts: the recipe's, then the table that it names, then the shipped one, then none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, toml, with_key, write_data

from recipec import catalog
from recipec.catalog.prices import price
from recipec.compiler import compile_recipe
from recipec.rules.core import Decision

LORA = BASES["lora-single"]  # on an A100 with 80 GB
NAMED = "prices.toml"
OWN = "[h100]\nusd_per_hour = 4\n\n[A100]\nusd_per_hour = 1.25\nsource = 'our contract'\nchecked = 2026-09-01\n"
SHIPPED = price("a100-80gb").usd_per_hour  # type: ignore[union-attr]

# [budget], GPU -> the price and how its reason begins.
WINNERS: dict[str, tuple[dict[str, Any], str, float | None, str]] = {
    "recipe": ({"price_per_gpu_hour": 2, "prices": NAMED}, "a100-80gb", 2, "set in recipe.toml:"),
    "a recipe without a bill": ({"price_per_gpu_hour": 0}, "a100-80gb", 0, "set in recipe.toml:"),
    "own table": ({"prices": NAMED}, "a100-80gb", 1.25, "set in prices.toml:4, 2026-09"),
    "own table, undated": ({"prices": NAMED}, "h100", 4, "set in prices.toml:1"),
    "not in the own table": ({"prices": NAMED}, "l40s", price("l40s").usd_per_hour, "median of "),  # type: ignore[union-attr]
    "shipped": ({}, "a100-80gb", SHIPPED, "median of "),
    "none": ({"prices": NAMED}, "h800", None, "no price is known for h800"),
}  # fmt: skip


@pytest.mark.parametrize("case", WINNERS)
def test_the_nearest_price_counts(tmp_path: Path, case: str) -> None:
    budget, gpu, usd, because = WINNERS[case]
    (tmp_path / NAMED).write_text(OWN)
    write_data(tmp_path)
    fact = _price(compiled(tmp_path, with_key(with_key(LORA, "hardware.gpu", gpu), "budget", budget)))
    assert (fact.value, fact.because.startswith(because)) == (usd, True)


def test_the_cost_of_a_plan_is_hours_times_the_price(tmp_path: Path) -> None:
    plan = compiled(tmp_path, with_key(LORA, "budget", {"price_per_gpu_hour": 2})).plan
    assert plan is not None
    assert plan.cost_usd == pytest.approx(plan.seconds / 3600 * 2)


def test_a_shipped_price_says_when_where_and_how_to_replace_it(tmp_path: Path) -> None:
    found = compiled(tmp_path, LORA)
    assert found.plan is not None
    assert "median of 9 clouds, 2026-10; own price: budget.price_per_gpu_hour" in found.plan.stages[0].cost_because
    assert "https://" not in found.plan.stages[0].cost_because
    assert "https://" in _price(found).source
    assert "2026-10" in next(file.text for file in found.files if file.path == "README.md")


def test_a_preset_of_the_team_brings_its_table(tmp_path: Path) -> None:
    """The path starts at the preset's folder."""
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    (shared / NAMED).write_text(OWN)
    (shared / "team.toml").write_text('[budget]\nprices = "./prices.toml"\n')
    write_data(mine)
    (mine / "recipe.toml").write_text(toml(with_key(LORA, "recipe.extends", "../shared/team.toml")))
    fact = _price(compile_recipe(mine / "recipe.toml"))
    assert (fact.value, fact.where, fact.source) == (1.25, "../shared/prices.toml:4", "our contract")


def test_a_copy_of_the_shipped_table_is_a_table_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / NAMED).write_text((Path(catalog.__file__).parent / "prices.toml").read_text(encoding="utf-8"))
    write_data(tmp_path)
    fact = _price(compiled(tmp_path, with_key(LORA, "budget", {"prices": NAMED})))
    assert (fact.value, fact.origin) == (SHIPPED, "recipe")


# What is wrong with a table -> the codes; the texts are in tests/errors.
FAULTS = {
    "no number": ("[h100]\nsource = 'us'\n", "E0201"),
    "text": ("[h100]\nusd_per_hour = '2'\n", "E0202"),
    "truth": ("[h100]\nusd_per_hour = true\n", "E0202"),
    "not a table": ("h100 = 2\n", "E0202"),
    "date as text": ("[h100]\nusd_per_hour = 2\nchecked = '2026-09-01'\n", "E0202"),
    "another key": ("[h100]\nusd_per_hour = 2\neur_per_hour = 2\n", "E0203"),
    "nothing": ("[h100]\nusd_per_hour = 0\n", "E0205"),
    "negative": ("[h100]\nusd_per_hour = -1.5\n", "E0205"),
    "too much": ("[h100]\nusd_per_hour = 1e300\n", "E0205"),
    "infinite": ("[h100]\nusd_per_hour = inf\n", "E0205"),
    "not a number": ("[h100]\nusd_per_hour = nan\n", "E0205"),
    "unknown": ("[h1000]\nusd_per_hour = 2\n", "E0302"),
    "twice": ("[h100]\nusd_per_hour = 2\n[h100-sxm]\nusd_per_hour = 3\n", "E0401"),
    "not TOML": ("[h100\n", "E0101"),
    "not UTF-8": (b"\xff", "E0003"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulty_table_is_refused_where_it_is_wrong(tmp_path: Path, case: str) -> None:
    text, code = FAULTS[case]
    write_data(tmp_path)
    (tmp_path / NAMED).write_bytes(text if isinstance(text, bytes) else text.encode())
    found = compiled(tmp_path, with_key(LORA, "budget", {"prices": NAMED, "price_per_gpu_hour": 2}))
    assert codes(found) == [code]
    assert found.diagnostics[0].labels[0].place.file.endswith(NAMED)


def test_a_price_in_the_recipe_has_the_same_bound(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, with_key(LORA, "budget", {"price_per_gpu_hour": 10_000}))) == ["W0522"]
    assert codes(compiled(tmp_path, with_key(LORA, "budget", {"price_per_gpu_hour": 1e300}))) == ["E0205"]


@pytest.mark.parametrize(("name", "code"), [("nope.toml", "E0001"), (".", "E0002")])
def test_a_table_that_cannot_be_read_is_refused_where_it_is_named(tmp_path: Path, name: str, code: str) -> None:
    found = compiled(tmp_path, with_key(LORA, "budget", {"prices": name}))
    assert codes(found) == [code]
    assert found.diagnostics[0].labels[0].place.file.endswith("recipe.toml")


def _price(found: Any) -> Decision:
    assert found.facts is not None, [str(finding) for finding in found.diagnostics]
    return found.facts.decisions["gpu_price"]
