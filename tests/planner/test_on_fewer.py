"""Fewer GPUs are advised with what keeps the adaptation of the plan, and one node only where it is worth it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from msgspec.structs import replace
from test_mending import applied

from recipec.estimate.cost import Cost
from recipec.layout import Machines
from recipec.planner.advice import on_fewer
from recipec.planner.advice.slow_network import one_node_instead
from recipec.planner.plan import OnFewer
from recipec.units import duration, usd

ROWS = {"train": "chat.jsonl", "examples": 50_000, "tokens_per_example": 600, "max_length": 4096}
QUALITY = with_key(with_key(BASES["lora-single"], "data", ROWS), "goal.priority", "quality")


def nodes(model: str, count: int, gbps: float) -> Tables:
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": count, "network_gbps": gbps}
    return with_key(with_key(QUALITY, "model.name", model), "hardware", hardware)


def advised(folder: Path, tables: Tables, code: str) -> tuple[str, ...]:
    found = compiled(folder, tables, only_plan=True).diagnostics
    return next((each.help for each in found if each.code == code), ())


def test_fewer_nodes_are_advised_with_the_adaptation_of_the_plan(tmp_path: Path) -> None:
    """On one node recipec would train LoRA: its memory is too little for a new domain to be worth all weights."""
    recipe = with_key(nodes("Qwen/Qwen3-0.6B", 4, 1), "goal", {"task": "instruct", "new_domain": True})
    recipe = with_key(with_key(recipe, "hardware.gpu", "rtx-4090"), "hardware.gpus_per_node", 1)
    now = compiled(tmp_path, recipe, only_plan=True).plan
    *_, fewer = advised(tmp_path, recipe, "W0503")
    assert fewer.startswith('set `hardware.nodes = 1` and `train.adaptation = "full"`: as the recipe is')
    then = compiled(tmp_path, applied(recipe, fewer), only_plan=True).plan
    assert now is not None and then is not None
    assert then.stages[0].layout.adapts is now.stages[0].layout.adapts
    alone = compiled(tmp_path, with_key(recipe, "hardware.nodes", 1), only_plan=True).plan
    assert alone is not None and alone.stages[0].layout.adapts is not now.stages[0].layout.adapts


def test_fewer_nodes_are_advised_alone_where_they_train_the_same(tmp_path: Path) -> None:
    *_, fewer = advised(tmp_path, nodes("Qwen/Qwen3-8B", 4, 10), "W0503")
    assert fewer.startswith("set `hardware.nodes = 1`: as the recipe is")


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "Qwen/Qwen3-32B"])
def test_one_node_is_advised_with_its_figures(tmp_path: Path, model: str) -> None:
    recipe = with_key(nodes(model, 2, 10), "train.adaptation", "full")
    one, _ = advised(tmp_path, recipe, "W0519")
    now = compiled(tmp_path, recipe, only_plan=True).plan
    told = one.removeprefix("train on one node: ")
    then = compiled(tmp_path, applied(recipe, told), only_plan=True).plan
    assert now is not None and then is not None and then.cost_usd < now.cost_usd
    assert f"the whole run takes {duration(then.seconds)} " in one
    assert one.endswith(f"and {usd(then.cost_usd)} instead of {usd(now.cost_usd)}")


def test_one_node_on_which_nothing_fits_is_not_advised(tmp_path: Path) -> None:
    slow = with_key(with_key(nodes("Qwen/Qwen3-14B", 2, 24), "hardware.gpus_per_node", 2), "train.adaptation", "full")
    *ways, last = advised(tmp_path, slow, "W0519")
    assert last == "connect the nodes with a faster network"
    assert not [way for way in ways if "hardware.nodes" in way]
    assert compiled(tmp_path, with_key(slow, "hardware.nodes", 1), only_plan=True).plan is None


@pytest.mark.parametrize(("times", "advised"), [(0.9, True), (1.8, True), (2.2, False)])
def test_one_node_that_is_slower_and_dearer_is_not_advised(tmp_path: Path, times: float, advised: bool) -> None:
    """One node of two costs as much in twice the time."""
    found = compiled(tmp_path, nodes("Qwen/Qwen3-8B", 2, 10), only_plan=True)
    plan = found.plan
    assert plan is not None and plan.cost_usd is not None
    alone = OnFewer(machines=Machines(1, 8), cost=Cost(times * plan.seconds, times * plan.cost_usd / 2, ""))
    plan = replace(plan, stages=(replace(plan.stages[0], on_one_node=alone),))
    assert bool([*one_node_instead(found.recipe, plan)]) == advised


def test_one_node_is_advised_with_its_global_batch(tmp_path: Path) -> None:
    """Nodes that wait take two pairs for each GPU; eight GPUs take 32, as recipec decides."""
    recipe = with_key(with_key(BASES["dpo-full"], "model.name", "meta-llama/Llama-3.1-70B-Instruct"), "train", {})
    recipe = with_key(with_key(recipe, "train.adaptation", "lora"), "goal.priority", "speed")
    recipe = with_key(recipe, "data.examples", 1_000_000)
    hardware = {"gpu": "l40s", "gpus_per_node": 8, "nodes": 6, "network_gbps": 10}
    recipe = with_key(recipe, "hardware", hardware)
    now = compiled(tmp_path, recipe, only_plan=True).plan
    one, *_ = advised(tmp_path, recipe, "W0519")
    then = compiled(tmp_path, applied(recipe, one.removeprefix("train on one node: ")), only_plan=True).plan
    assert now is not None and then is not None
    batches = then.stages[0].layout.global_batch, now.stages[0].layout.global_batch
    assert batches[0] != batches[1] and "with a global batch of {} instead of {}, ".format(*batches) in one


GPT_OSS = with_key(with_key(QUALITY, "model.name", "openai/gpt-oss-120b"), "data.tokens_per_example", 1_500)
GPT_OSS = with_key(GPT_OSS, "data.max_length", 8192)
H200 = {"gpu": "h200", "gpus_per_node": 8, "nodes": 2, "network_gbps": 3200}


def test_fewer_gpus_on_which_the_run_takes_far_longer_are_not_advised(tmp_path: Path) -> None:
    """On 4 GPUs, half of the host memory is assumed, and states have to wait in it; one whole node has enough."""
    recipe = with_key(GPT_OSS, "hardware", H200)
    now = compiled(tmp_path, recipe, only_plan=True).plan
    *_, fewer = advised(tmp_path, recipe, "W0503")
    then, half = (
        compiled(tmp_path, changed, only_plan=True).plan
        for changed in (
            applied(recipe, fewer),
            with_key(with_key(recipe, "hardware.nodes", 1), "hardware.gpus_per_node", 4),
        )
    )
    assert now is not None and then is not None and half is not None
    assert fewer.startswith("set `hardware.nodes = 1`: as the recipe is") and now.stages[0].layout.gpus == 4
    figures = f"{duration(then.seconds)} as before and {usd(then.cost_usd)} instead of {usd(now.cost_usd)}"
    assert fewer.endswith(f"; the whole run takes {figures}")
    assert half.seconds > 2 * now.seconds


def test_no_fewer_gpus_are_advised_where_all_that_are_fewer_take_longer(tmp_path: Path) -> None:
    recipe = with_key(GPT_OSS, "hardware", {"gpu": "h200", "gpus_per_node": 8})
    found = compiled(tmp_path, recipe, only_plan=True)
    (idle,) = [each for each in found.diagnostics if each.code == "W0503"]
    half = compiled(tmp_path, with_key(recipe, "hardware.gpus_per_node", 4), only_plan=True).plan
    assert found.plan is not None and half is not None
    assert not [line for line in idle.help if "gpus_per_node" in line]
    assert found.plan.stages[0].layout.gpus == 4 and half.seconds > found.plan.seconds
    told = f"on 4 GPUs the whole run takes {duration(half.seconds)} instead of {duration(found.plan.seconds)}"
    assert told in found.plan.stages[0].on_used.refused
    assert all(told in note for note in idle.notes) and (idle.notes or idle.help)


@pytest.mark.parametrize(
    ("seconds", "usd", "pays"), [(100, 5.0, True), (130, 5.0, False), (100, 11.0, False), (120, None, True)]
)
def test_fewer_gpus_pay_where_they_take_neither_more_time_nor_more_money(
    seconds: float, usd: float | None, pays: bool
) -> None:
    assert on_fewer._pays(Cost(seconds, usd, ""), Cost(100, 10.0, "")) is pays


def test_fewer_gpus_are_not_advised_for_one_of_several_stages(tmp_path: Path) -> None:
    """A stage with one row in a step leaves GPUs idle that the next one trains on."""
    recipe = with_key(with_key(BASES["sft-dpo"], "hardware", {"gpu": "h100", "gpus_per_node": 8}), "train", {})
    recipe = with_key(with_key(recipe, "train.sft.global_batch_size", 1), "train.dpo.global_batch_size", 64)
    (warning,) = [each for each in compiled(tmp_path, recipe).diagnostics if each.code == "W0503"]
    assert not any("hardware." in line for line in warning.help)
    assert warning.help or "other stages run on the same GPUs" in warning.notes[0]
