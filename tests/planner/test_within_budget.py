"""What E0403 proposes keeps to the budget and comes true; other proposals say where they break it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from msgspec.structs import replace
from test_mending import applied

from recipec.facts import price as price_facts
from recipec.layout import Machines
from recipec.planner import Plan, others, runs
from recipec.planner.advice.change import Change
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.ways_out import beside
from recipec.planner.advice.whole_runs import smaller
from recipec.planner.in_budget import in_budget
from recipec.planner.planner import contexts
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.rules.core import Wish
from recipec.units import duration, usd


def on_nodes(model: str, **hardware: object) -> Tables:
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "train", {"adaptation": "full"})
    recipe["data"] |= {"examples": 100_000, "tokens_per_example": 600, "max_length": 4096}
    return with_key(recipe, "hardware", {"gpus_per_node": 8, **hardware})


SLOW = with_key(on_nodes("Qwen/Qwen2.5-14B", gpu="l40s", nodes=12, network_gbps=25), "data.examples", 500_000)
FAST = on_nodes("Qwen/Qwen3-32B", gpu="h100", nodes=16, network_gbps=3200)


def helps(folder: Path, recipe: Tables) -> dict[str, tuple[str, ...]]:
    return {each.code: each.help for each in compiled(folder, recipe, only_plan=True).diagnostics}


@pytest.mark.parametrize(("recipe", "budget"), [(SLOW, {"max_hours": 6}), (FAST, {"max_cost_usd": 200})])
def test_what_keeps_to_the_budget_comes_true(tmp_path: Path, recipe: Tables, budget: Tables) -> None:
    found = helps(tmp_path, with_key(recipe, "budget", budget))["E0403"]
    lines = [line for line in found if line.startswith("set ")]
    assert lines
    for line in lines:
        plan = compiled(tmp_path, applied(with_key(recipe, "budget", budget), line), only_plan=True).plan
        assert plan is not None, line
        assert f"the whole run takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)}" in line


def test_what_fewer_gpus_take_is_told(tmp_path: Path) -> None:
    """The fp32 states of AdamW fit on 16 nodes, and not on one."""
    recipe = with_key(with_key(FAST, "data.examples", 5_000), "budget.max_cost_usd", 20)
    (line,) = (each for each in helps(tmp_path, recipe)["E0403"] if "hardware.nodes" in each)
    assert line.startswith("set `hardware.nodes = 1`: with adamw-8bit, the whole run takes ")
    then = compiled(tmp_path, applied(recipe, line), only_plan=True).plan
    assert then is not None and then.stages[0].layout.optimizer == "adamw-8bit"


def test_proposals_that_break_the_budget_say_so(tmp_path: Path) -> None:
    found = helps(tmp_path, with_key(SLOW, "budget", {"max_hours": 6}))["W0519"]
    one, adapters, _ = found
    assert one.startswith("train on one node: ") and one.endswith(", still over the budget")
    assert "`train.adaptation" in adapters and "over the budget" not in adapters


def test_others_are_planned_once_and_without_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two limits are exceeded: fewer nodes are planned for both."""
    asked: list[int] = []
    halves, planned = others._halves, []
    monkeypatch.setattr(others, "_halves", lambda facts: asked.append(facts.machines.nodes) or halves(facts))
    monkeypatch.setattr(others, "plan_recipe", lambda *given: planned.append(given))
    compiled(tmp_path, with_key(FAST, "budget", {"max_cost_usd": 1, "max_gpu_hours": 1}), only_plan=True)
    assert (asked, planned) == ([16], [])


@pytest.mark.parametrize(
    ("machines", "measured", "fewer"),
    [
        (Machines(3, 2), False, [(1, 2), (2, 2), (1, 1)]),
        (Machines(3, 2), True, [(1, 2), (2, 2)]),
        (Machines(1, 4), False, [(1, 1), (1, 2), (1, 3)]),
    ],
)
def test_fewer_machines_are_whole_nodes_or_parts_of_one(
    machines: Machines, measured: bool, fewer: list[tuple[int, int]]
) -> None:
    assert smaller(machines, measured) == [Machines(*each) for each in fewer]


TWO_STAGES = with_key(BASES["sft-dpo"], "data.examples", 60_000)
STEPS = with_key(BASES["lora-single"], "train", {"max_steps": 2_000})


@pytest.mark.parametrize(
    ("recipe", "hours", "usd_share"),
    [
        (BASES["lora-single"], 0.6, None),
        (STEPS, 0.6, 0.5),
        (TWO_STAGES, 0.9, 0.5),
        (BASES["rloo"], 0.8, 0.6),
        (BASES["grpo"], 0.9, 0.4),
    ],
    ids=["one stage", "steps", "two stages", "other layouts", "all weights"],
)
def test_every_line_keeps_to_all_limits_and_comes_true(
    tmp_path: Path, recipe: Tables, hours: float, usd_share: float | None
) -> None:
    """What takes few enough hours may still cost too much; the figures are those of the changed recipe's plan."""
    now = compiled(tmp_path, recipe, only_plan=True).plan
    assert now is not None and now.cost_usd is not None
    limits = {"max_hours": hours * now.seconds / 3600}
    limits |= {"max_cost_usd": usd_share * now.cost_usd} if usd_share else {}
    over = with_key(recipe, "budget", limits)
    found = [each for each in compiled(tmp_path, over, only_plan=True).diagnostics if each.code == "E0403"]
    lines = {line for each in found for line in each.help if line.startswith("set ")}
    assert len(found) == len(limits) and lines
    for line in lines:
        plan = compiled(tmp_path, applied(over, line), only_plan=True).plan
        assert plan is not None, line
        assert f"takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)}" in line


@pytest.mark.parametrize(
    ("recipe", "keys"), [(STEPS, ["train.max_steps"]), (TWO_STAGES, ["train.sft.epochs", "train.dpo.epochs"])]
)
def test_fewer_passes_are_named_by_the_keys_of_the_recipe(tmp_path: Path, recipe: Tables, keys: list[str]) -> None:
    now = compiled(tmp_path, recipe, only_plan=True).plan
    assert now is not None
    found = helps(tmp_path, with_key(recipe, "budget", {"max_hours": 0.7 * now.seconds / 3600}))["E0403"]
    assert [line for line in found if all(f"`{key} = " in line for key in keys)]


@pytest.mark.parametrize(
    ("recipe", "train", "told"),
    [
        (BASES["lora-single"], {}, "lower `train.epochs`, use fewer rows or take a smaller model"),
        (BASES["lora-single"], {"sft": {"epochs": 2}}, "lower `train.sft.epochs`, use fewer rows or "),
        (BASES["lora-single"], {"max_steps": 900}, "lower `train.max_steps` or take a smaller model"),
        (TWO_STAGES, {"sft": {"max_steps": 900}}, "lower `train.sft.max_steps` or `train.dpo.epochs`, use fewer rows "),
        (BASES["adapters"], {}, "lower `train.epochs`, use fewer rows or take a smaller model"),
    ],
)
def test_what_is_said_in_general_names_how_long_stages_train(
    tmp_path: Path, recipe: Tables, train: Tables, told: str
) -> None:
    """`train.epochs` beside `train.max_steps` would be refused."""
    over = with_key(with_key(recipe, "train", train), "budget", {"max_hours": 0.01})
    assert helps(tmp_path, over)["E0403"][-1].startswith(told)


@pytest.mark.parametrize(
    ("train", "prompts", "removed"),
    [
        ({"ppo": {"max_steps": 300}, "reward": {"epochs": 2}}, None, ["train.reward", "train.ppo"]),
        ({"ppo": {"max_steps": 300}, "epochs": 1}, "prompts.jsonl", ["data.prompts", "train.ppo"]),
        ({}, None, []),
    ],
)
def test_tables_of_stages_that_no_longer_run_are_removed(
    tmp_path: Path, train: Tables, prompts: str | None, removed: list[str]
) -> None:
    """DPO learns from the pairs themselves: [train.ppo] beside it would be refused."""
    recipe = with_key(with_key(BASES["sft-dpo"], "data.prompts", prompts), "train", train)
    recipe = with_key(with_key(recipe, "alignment", {"kl_control": "high"}), "budget", {"max_hours": 0.01})
    (line,) = (each for each in helps(tmp_path, recipe)["E0403"] if each.startswith("set `alignment.method"))
    _, _, names = line.partition(": ")[0].partition(" and remove ")
    assert re.findall("`([^`]+)`", names) == removed
    then = helps(tmp_path, applied(with_key(recipe, "budget", None), line))
    assert not [code for code in then if code.startswith("E")]


LARGE = with_key(with_key(BASES["lora-single"], "data.examples", 50_000), "hardware.gpu", "h200")
PAIRS = with_key(with_key(LARGE, "data.preferences", "pairs.jsonl"), "goal.task", "align")
ALL_WEIGHTS = 'set `train.adaptation = "full"`'


def all_weights(folder: Path, recipe: Tables) -> tuple[list[str], Plan]:
    """What each stage says of training all weights, and the plan that the first of them gives."""
    plan = compiled(folder, recipe, only_plan=True).plan
    lines = [line for stage in plan.stages for line in stage.options if line.startswith(ALL_WEIGHTS)]
    return lines, compiled(folder, applied(with_key(recipe, "budget", None), lines[0]), only_plan=True).plan


@pytest.mark.parametrize(("price", "share", "over"), [(None, 0.99, True), (0, 0.99, True), (None, 1.01, False)])
def test_gpu_hours_need_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, price: float | None, share: float, over: bool
) -> None:
    """GPU hours are those of the GPUs and the time, also where they are free or nobody knows what they cost."""
    if price is None:
        monkeypatch.setattr(price_facts, "price", lambda name: None)
    priced = with_key(LARGE, "budget", {} if price is None else {"price_per_gpu_hour": price})
    _, then = all_weights(tmp_path, priced)
    (line,), _ = all_weights(tmp_path, with_key(priced, "budget.max_gpu_hours", share * then.gpu_hours))
    assert ("over the budget" in line) is over


@pytest.mark.parametrize(("share", "over"), [(0.99, True), (1.01, False)])
def test_an_option_of_a_stage_is_held_against_all_stages(tmp_path: Path, share: float, over: bool) -> None:
    """The adaptation is that of both stages: each takes longer with it, and the budget is that of their sum."""
    _, then = all_weights(tmp_path, PAIRS)
    assert {stage.layout.adaptation for stage in then.stages} == {"full"}
    lines, _ = all_weights(tmp_path, with_key(PAIRS, "budget.max_hours", share * then.seconds / 3600))
    assert lines and all(("over the budget" in line) is over for line in lines)


def test_the_other_stages_stay_as_they_are_beside_a_key_of_one(tmp_path: Path) -> None:
    """`train.sft.micro_batch_size` says nothing of DPO; machines are those of both."""
    found = compiled(tmp_path, PAIRS, only_plan=True)
    sft, dpo = contexts(found.recipe, found.facts)
    sets = {"train.micro_batch_size": Wish(1, ""), "train.optimizer": Wish("adamw-8bit", "")}
    changed = on_machines(replace(sft, wishes={**sft.wishes, **sets}), Machines(1, 2))
    then = beside(changed, sft, dpo)
    assert then.wishes.keys() - dpo.wishes.keys() == {"train.optimizer"}
    assert then.facts.machines == Machines(1, 2)
    assert beside(sft, changed, then).wishes == dpo.wishes


def test_no_further_stage_is_planned_of_what_exceeds_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan for 16 GPUs takes a second for each stage, and the first alone costs more than there is."""
    planned: list[str] = []

    def noted(context: Context, *more: Any) -> Fit:
        planned.append(context.stage.name)
        return fit(context, *more)

    over = with_key(TWO_STAGES, "budget", {"max_hours": 0.05})
    loaded, facts = (lambda found: (found.recipe, found.facts))(compiled(tmp_path, over, only_plan=True))
    monkeypatch.setattr(runs, "fit", noted)
    assert loaded and facts and in_budget(loaded, contexts(loaded, facts), 1, Change()) is None
    assert planned == ["sft"]


@pytest.mark.parametrize(("key", "builds"), [("train.max_steps", True), ("train.epochs", False)])
def test_what_contradicts_the_recipe_is_not_planned(tmp_path: Path, key: str, builds: bool) -> None:
    """`train.epochs` beside `train.max_steps` would be refused."""
    found = compiled(tmp_path, with_key(STEPS, "budget.max_hours", 1_000), only_plan=True)
    assert found.recipe and found.facts
    then = in_budget(found.recipe, contexts(found.recipe, found.facts), 1, Change(((key, 1),)))
    assert (then is not None) is builds
