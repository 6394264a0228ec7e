"""The matrix has a cell for everything that differs in code, made from the rows, and what it says can be looked up."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import matrix
import pytest
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES
from recipec.catalog.models import models
from recipec.compiler import compile_recipe
from recipec.rules.combinations import COMBINATIONS

NAMES = [cell.name for cell in matrix.cells()]


def test_every_method_runs_with_every_strategy_and_adaptation_of_its_row() -> None:
    wanted = {
        f"{method.name} {strategy} {adaptation}"
        for method, strategy in product(METHODS.values(), STRATEGIES)
        for adaptation in method.adaptations
        if not ADAPTATIONS[adaptation].asked_in  # a table of its own, behind other stages: a recipe of this folder
    }
    assert wanted <= set(NAMES)
    assert {name.split()[0] for name in NAMES} >= {model.architecture.model_type for model in models()}
    assert len(NAMES) == len(set(NAMES))


def test_a_new_row_brings_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ipo", replace(METHODS["dpo"], name="ipo", alignment="ipo", adaptations=("lora",)))
    monkeypatch.setitem(STRATEGIES, "zero4", replace(STRATEGIES["zero3"], name="zero4"))
    new = {cell.name: cell.recipe for cell in matrix.cells() if cell.name not in NAMES}
    assert {"ipo single lora", "ipo zero4 lora", "sft zero4 full"} <= new.keys()
    assert 'method = "ipo"' in new["ipo zero4 lora"]
    report = "\n".join(matrix.report(matrix.read()))
    assert "| ipo zero4 lora | run | not run yet |" in report


def test_the_committed_table_has_no_other_cells_and_its_summary_is_its_own() -> None:
    assert not matrix.read().keys() - set(NAMES)
    assert matrix.SUMMARY.read_text(encoding="utf-8").splitlines() == list(matrix.report(matrix.read()))


def test_a_refused_cell_names_a_rule_or_that_it_does_not_fit() -> None:
    rules = {row.id for row in COMBINATIONS}
    reasons = [row["result"].split()[1] for row in matrix.read().values() if row["result"].startswith("refused")]
    assert reasons
    assert set(reasons) <= rules | {"E0402"}
    assert set(reasons) & rules


def test_a_refused_cell_has_the_title_that_its_rule_has_today() -> None:
    titles = {f"refused: {row.id} ": row.title for row in COMBINATIONS}
    refused = [row["result"] for row in matrix.read().values() if row["result"].startswith(tuple(titles))]
    assert refused and not set(refused) - {f"{rule}{title}" for rule, title in titles.items()}


def test_a_refusal_is_told_by_its_rule(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(matrix.DATA)
    (cell,) = (cell for cell in matrix.cells() if cell.name == "sft zero3 qlora")
    (tmp_path / "recipe.toml").write_text(cell.recipe, encoding="utf-8")
    done = compile_recipe(tmp_path / "recipe.toml")
    assert re.fullmatch(r"BAD-002 .*ZeRO-3", matrix._reason(done.diagnostics))


def test_the_readme_counts_the_cells_as_the_table_does() -> None:
    counted = next(line for line in matrix.report(matrix.read()) if " cells: " in line)
    cells, *rest = re.findall(r"\d+", counted)
    readme = " ".join((matrix.TESTS.parent / "README.md").read_text(encoding="utf-8").split())
    assert re.fullmatch(r"\d+ cells: \d+ passed, \d+ refused\.", counted), f"not all have run and passed: {counted}"
    assert f"of {cells} cells {rest[0]} passed, and {rest[1]} are refused" in readme
