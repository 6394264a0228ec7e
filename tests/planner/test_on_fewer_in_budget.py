"""A budget that a plan exceeds: fewer GPUs are advised where they can be planned for the recipe, and nowhere else."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.facts import measured
from recipec.planner import others
from recipec.planner.runs import fitted
from recipec.planner.search.context import Context

PAIR = Path(__file__).parents[1] / "facts" / "h100-pair.toml"  # two H100, made up
FEW_ROWS = with_key(BASES["lora-ddp"], "data.examples", 500)  # loading costs more on each GPU than the steps
MEASURED = with_key(FEW_ROWS, "hardware.measured", PAIR.name)
SIDE_BY_SIDE = with_key(BASES["adapters"], "hardware", {"gpu": "h100", "gpus_per_node": 8})
ALONE = with_key(BASES["lora-single"], "hardware", {"gpu": "h100", "gpus_per_node": 8})


@pytest.mark.parametrize(
    ("tables", "fewer"),
    [(FEW_ROWS, True), (MEASURED, False), (ALONE, True), (SIDE_BY_SIDE, False)],
    ids=["a pair", "a pair that was measured", "one task", "several tasks"],
)
def test_fewer_gpus_are_advised_where_they_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: Tables, fewer: bool
) -> None:
    """Rates of a part of a node were not measured, and several tasks share the GPUs."""
    monkeypatch.setattr(measured, "today", lambda: date(2026, 12, 1))
    tried: list[Context] = []
    monkeypatch.setattr(others, "fitted", lambda given, *more: tried.extend(given) or fitted(given, *more))
    shutil.copy(PAIR, tmp_path)
    plan = compiled(tmp_path, tables, only_plan=True).plan
    assert plan is not None and plan.cost_usd is not None
    over = with_key(tables, "budget.max_cost_usd", 0.85 * plan.cost_usd)
    (found,) = [each for each in compiled(tmp_path, over, only_plan=True).diagnostics if each.code == "E0403"]
    assert any(line.startswith("set `hardware.gpus_per_node = ") for line in found.help) is fewer, found.help
    assert bool(tried) is fewer, "a plan of the first task alone, or of rates that nobody measured"


@pytest.mark.parametrize(("servers", "planned"), [(1, [4, 2]), (2, [4])])
def test_fewer_gpus_leave_one_that_trains_beside_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: int, planned: list[int]
) -> None:
    """All GPUs of a smaller node would only write answers."""
    tried: list[Context] = []
    monkeypatch.setattr(others, "fitted", lambda given, *more: tried.extend(given) or fitted(given, *more))
    served = with_key(BASES["served"], "alignment.generation.server_gpus", servers)
    over = with_key(with_key(served, "hardware.gpus_per_node", 8), "budget.max_cost_usd", 0.01)
    assert [each.code for each in compiled(tmp_path, over, only_plan=True).diagnostics].count("E0403") == 1
    assert [each.facts.machines.gpus_per_node for each in tried] == planned
