"""A recipe that shapes an adapter gets one, or an error that names the table: never full fine-tuning unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, with_key

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES
from recipec.planner.advice.changes import unpinned
from recipec.planner.advice.keys import as_written
from recipec.planner.planner import contexts

Keys = dict[str, Any]
LORA = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-0.6B")
MANY = with_key(with_key(LORA, "data.examples", 150_000), "hardware.gpu", "h100")  # full fine-tuning comes first
MIXTRAL = with_key(with_key(MANY, "model.name", "mistralai/Mixtral-8x7B-v0.1"), "hardware.gpus_per_node", 8)

WAYS: dict[str, tuple[str, Any]] = {
    "rank": ("train.lora", {"rank": 64}),
    "alpha": ("train.lora", {"alpha": 16}),
    "targets": ("train.lora", {"targets": ["q_proj"]}),
    "dropout": ("train.lora", {"dropout": 0.0}),
    "an empty table": ("train.lora", {}),
    "of the stage": ("train.sft", {"lora": {"rank": 8}}),
    "an empty table of the stage": ("train.sft", {"lora": {}}),
    "beside auto": ("train", {"adaptation": "auto", "lora": {"rank": 8}}),
}


def test_full_fine_tuning_comes_first_where_no_adapter_is_shaped(tmp_path: Path) -> None:
    plan = good(tmp_path, MANY).plan
    assert plan and plan.stages[0].layout.adapts.trains_all


@pytest.mark.parametrize("way", WAYS)
def test_a_shaped_adapter_is_trained(tmp_path: Path, way: str) -> None:
    key, value = WAYS[way]
    plan = good(tmp_path, with_key(MANY, key, value)).plan
    assert plan
    adaptation = plan.stages[0].decisions["adaptation"]
    assert (adaptation.value, adaptation.origin, adaptation.key) == ("lora", "recipe", "train.adaptation")
    assert adaptation.because == f"the table `lora` in {adaptation.where} shapes an adapter"


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_strategy_replaces_it(tmp_path: Path, strategy: str, gpus: int) -> None:
    if STRATEGIES[strategy].one_rank != (gpus == 1) or STRATEGIES[strategy].groups:
        return
    recipe = with_key(with_key(MANY, "hardware.gpus_per_node", gpus), "train", {"strategy": strategy, "lora": {}})
    plan = good(tmp_path, recipe).plan
    assert plan and plan.stages[0].layout.strategy == strategy and not plan.stages[0].layout.adapts.trains_all


@pytest.mark.parametrize("priority", ["quality", "speed", "memory"])
def test_no_priority_replaces_it(tmp_path: Path, priority: str) -> None:
    recipe = with_key(with_key(MANY, "goal.priority", priority), "train.lora", {"rank": 16})
    plan = good(tmp_path, recipe).plan
    assert plan and not plan.stages[0].layout.adapts.trains_all


@pytest.mark.parametrize("in_general", [True, False])
def test_each_stage_has_its_own(tmp_path: Path, in_general: bool) -> None:
    """[train.lora] is for every stage, [train.dpo] for one."""
    recipe = with_key(with_key(BASES["sft-dpo"], "model.name", "Qwen/Qwen3-0.6B"), "data.examples", 150_000)
    recipe = with_key(recipe, "train", {"lora": {}} if in_general else {"dpo": {"lora": {}}})
    plan = good(tmp_path, recipe).plan
    assert plan
    assert [stage.layout.adapts.trains_all for stage in plan.stages] == [not in_general, False]


def test_a_preset_that_shapes_one_is_heard(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[train.lora]\nrank = 64\n")
    plan = good(tmp_path, with_key(MANY, "recipe.extends", "team.toml")).plan
    assert plan
    decided = plan.stages[0].decisions
    assert (decided["adaptation"].value, decided["lora_rank"].value) == ("lora", 64)
    assert decided["adaptation"].where == "team.toml:1"


def test_a_preset_with_an_adapter_below_full_fine_tuning_contradicts_it(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[train.lora]\nrank = 64\n")
    recipe = with_key(with_key(MANY, "recipe.extends", "team.toml"), "train.adaptation", "full")
    assert codes(compiled(tmp_path, recipe)) == ["E0401"]


REFUSED: dict[str, tuple[Keys, Any, str, str]] = {  # base, the table, code, what is underlined
    "experts with dropout": (MIXTRAL, {"dropout": 0.05}, "E0405", "0.05"),
    "the head": (MANY, {"targets": ["q_proj", "lm_head"]}, "E0405", '["q_proj", "lm_head"]'),
    "no such module": (MANY, {"targets": ["q_prod"]}, "E0401", '"q_prod"'),
    "no adapter fits": (with_key(MIXTRAL, "hardware", {"vram_gib": 12}), {"rank": 8}, "E0402", '"lora"'),
}


@pytest.mark.parametrize("only_plan", [True, False])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_had_is_an_error_at_the_key(tmp_path: Path, case: str, only_plan: bool) -> None:
    base, table, code, underlined = REFUSED[case]
    found = compiled(tmp_path, with_key(base, "train.lora", table), only_plan=only_plan)
    [finding] = [finding for finding in found.diagnostics if finding.code.startswith("E")]
    assert finding.code == code and finding.help and found.plan is None
    spans = [(label.place.text.splitlines()[label.place.span.line - 1], label.place.span) for label in finding.labels]
    assert underlined in [line[span.col - 1 : span.end_col - 1] for line, span in spans]


@pytest.mark.parametrize(
    ("train", "removed"),
    [
        ({"lora": {"rank": 8}}, "`train.lora`"),
        ({"lora": {}}, "`train.lora`"),
        ({"sft": {"lora": {"rank": 8}}}, "`train.sft.lora`"),
        ({"lora": {"rank": 8}, "sft": {"lora": {"rank": 4}}}, "`train.sft.lora` and `train.lora`"),
        ({"adaptation": "lora", "lora": {"rank": 8}}, "`train.adaptation` and `train.lora`"),
    ],
)
def test_a_way_out_removes_all_that_asks_for_it(tmp_path: Path, train: Keys, removed: str) -> None:
    compilation = compiled(tmp_path, with_key(MANY, "train", train))
    assert compilation.recipe and compilation.facts
    [context] = contexts(compilation.recipe, compilation.facts)
    [(change, freed)] = unpinned(context)
    assert not any(key.startswith(("train.lora", "train.adaptation")) for key in freed.wishes)
    assert as_written(change, context).told == f"remove {removed}"


def test_every_table_of_an_adapter_with_or_without_a_key_belongs_to_one_family() -> None:
    """What a table says of the adaptation is then never a guess."""
    for row in (row for row in ADAPTATIONS.values() if row.table):
        asked = (row.table, row.own_key)
        assert {other.family for other in ADAPTATIONS.values() if (other.table, other.own_key) == asked} == {row.family}
    assert any(len(row.adaptations) == 1 for row in METHODS.values())  # those refuse the table: test_contradictions
