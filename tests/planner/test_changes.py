"""The ways out lift what a recipe fixes, one value at a time."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner.advice.changes import PINS, halved_models, larger_gpu
from recipec.planner.outcome import KEYS
from recipec.planner.planner import contexts
from recipec.units import duration, usd

# A fixed value with which nothing fits, and what is fixed beside it.
LIFTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "optimizer": ("adamw", {"adaptation": "full", "strategy": "single"}),
    "strategy": ("ddp", {"adaptation": "full"}),
    "activation_checkpointing": (False, {"adaptation": "lora"}),
    "micro_batch_size": (64, {"adaptation": "lora", "global_batch_size": 256}),
}


SMALL = "Qwen/Qwen3-0.6B"


def test_whatever_fixes_a_part_of_the_layout_can_be_lifted() -> None:
    assert set(KEYS.values()) <= set(PINS)


@pytest.mark.parametrize("key", LIFTED)
def test_a_way_out_frees_one_value(tmp_path: Path, key: str) -> None:
    value, beside = LIFTED[key]
    model, gpus = ("Qwen/Qwen3-1.7B", 1) if key == "optimizer" else ("Qwen/Qwen3-8B", 4)
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "data.max_length", 8192)
    recipe = with_key(recipe, "goal.priority", "memory")
    recipe = with_key(recipe, "hardware", {"gpu": "a100-40gb" if gpus > 1 else "rtx-5090", "gpus_per_node": gpus})
    [finding] = [
        found
        for found in compiled(tmp_path, with_key(recipe, "train", {**beside, key: value})).diagnostics
        if found.code == "E0402"
    ]
    assert any(help.startswith(f"remove `train.{key}`:") for help in finding.help), finding.help
    assert compiled(tmp_path, with_key(recipe, "train", beside)).plan is not None


@pytest.mark.parametrize(("name", "makers"), [("a6000", {"nvidia"}), ("mi250x", {"amd"}), ("cpu", {"nvidia", "amd"})])
def test_a_larger_gpu_is_of_the_same_maker(tmp_path: Path, name: str, makers: set[str]) -> None:
    compilation = compiled(tmp_path, with_key(BASES["lora-single"], "hardware", {"gpu": name}), only_plan=True)
    assert compilation.recipe and compilation.facts
    [context] = contexts(compilation.recipe, compilation.facts)
    assert {changed.facts.gpu.vendor for _, changed in larger_gpu(context)} == makers


def test_a_larger_gpu_is_one_that_is_on_offer(tmp_path: Path) -> None:
    """Of those between an A100 and an H200, nobody in the surveys rents or sells an H20 or an H100 NVL."""
    compilation = compiled(tmp_path, with_key(BASES["lora-single"], "hardware", {"gpu": "a100-80gb"}), only_plan=True)
    assert compilation.recipe and compilation.facts
    [context] = contexts(compilation.recipe, compilation.facts)
    assert [changed.facts.gpu.name for _, changed in larger_gpu(context)] == ["rtx-pro-6000", "h200", "b200"]


FULL_70B: dict[str, Any] = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.3-70B-Instruct"},
    "data": {"train": "chat.jsonl", "examples": 100_000, "tokens_per_example": 800, "max_length": 4096},
    "hardware": {"gpu": "a100-40gb", "gpus_per_node": 8},
    "train": {"adaptation": "full"},
}


def ways(folder: Path, recipe: dict[str, Any]) -> tuple[str, ...]:
    (finding,) = [found for found in compiled(folder, recipe).diagnostics if found.code == "E0402"]
    return finding.help


def test_ways_out_are_told_with_what_they_take_the_cheapest_first(tmp_path: Path) -> None:
    """More host memory, an adapter, other GPUs and more nodes: each as its own recipe is planned."""
    lines = ways(tmp_path, FULL_70B)
    costs = [float(re.search(r" and costs \$([\d,.]+)", line)[1].replace(",", "")) for line in lines]
    assert len(costs) == 4 and costs == sorted(costs) and costs[0] < costs[-1] / 4
    for line in lines:
        recipe = FULL_70B
        for key, value in re.findall(r"`([\w.]+) = ([^`]+)`", line.partition(":")[0]):
            recipe = with_key(recipe, key, json.loads(value))
        recipe = with_key(recipe, "train", {}) if line.startswith("remove") else recipe
        plan = compiled(tmp_path, recipe, only_plan=True).plan
        assert plan is not None
        assert f"the whole run takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)}" in line


def test_a_way_out_of_another_gpu_names_its_price(tmp_path: Path) -> None:
    """A recipe's own price is that of its own GPU."""
    (line,) = [line for line in ways(tmp_path, with_key(FULL_70B, "budget.price_per_gpu_hour", 0.5)) if "h200" in line]
    assert re.search(r" at \$\d\.\d\d an hour for h200 \(median of \d+ clouds, [\d-]+\)$", line)
    assert not [other for other in ways(tmp_path, FULL_70B) if "an hour of an a100" in other]


def test_a_model_of_another_family_is_named_where_nothing_else_is_enough(tmp_path: Path) -> None:
    recipe = with_key(FULL_70B, "model.name", "meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    recipe = with_key(with_key(recipe, "data.max_length", 2048), "train.adaptation", "lora")
    recipe = with_key(recipe, "hardware", {"gpu": "l4", "gpus_per_node": 2})
    (line,) = ways(tmp_path, recipe)
    name = re.match(r'set `model.name = "([^"]+)"`: Q?LoRA, ', line)[1]
    assert "llama" not in name.lower()
    assert compiled(tmp_path, with_key(recipe, "model.name", name), only_plan=True).plan is not None


def test_another_gpu_costs_what_the_recipe_s_own_table_says(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(
        '[h200]\nusd_per_hour = 1.25\nsource = "our contract"\nchecked = 2026-11-01\n'
    )
    recipe = with_key(BASES["full-fsdp"], "budget", {"prices": "prices.toml"})
    for key, value in {"hardware.gpu": "a100-40gb", "hardware.gpus_per_node": 1, "train.adaptation": "full"}.items():
        recipe = with_key(recipe, key, value)
    found = compiled(tmp_path, recipe).diagnostics
    told = [way for each in found if each.code == "E0402" for way in each.help if "h200" in way]
    assert told and all("at $1.25 an hour" in way for way in told), found


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.3-70B-Instruct"])
def test_smaller_models_of_any_family_are_each_half_as_large_and_known_as_they_are(tmp_path: Path, name: str) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "model.name", name), "data.max_length", 8192)
    recipe = with_key(recipe, "hardware", {"gpu": "h200", "gpus_per_node": 8})
    compilation = compiled(tmp_path, recipe, only_plan=True)
    assert compilation.recipe and compilation.facts
    [context] = contexts(compilation.recipe, compilation.facts)
    models = [context.facts.model, *(changed.facts.model for _, changed in halved_models(context))]
    sizes = [model.architecture.params for model in models]
    assert len(sizes) > 3 and all(2 * small <= large for large, small in pairwise(sizes))
    assert all(model.architecture.max_position >= 8192 and not model.purpose for model in models[1:])
    for _, changed in halved_models(context):
        known, model = changed.facts.decisions, changed.facts.model
        assert known["params"].value == model.architecture.params and known["moe"].value is bool(model.architecture.moe)
        assert ("experts_per_token" in known) is bool(model.architecture.moe)


def test_pretraining_is_told_no_model_whose_checkpoint_holds_more(tmp_path: Path) -> None:
    """Of such a model random weights are not made: a recipe that names it is refused."""
    recipe = with_key(with_key(BASES["pretrain"], "model.name", "openai/gpt-oss-20b"), "hardware", {"gpu": "a100-80gb"})
    recipe = with_key(recipe, "train.global_batch_size", 1)
    (finding,) = (found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402")
    named = [name for line in finding.help for name in re.findall(r'`model.name = "([^"]+)"`', line)]
    assert named
    for name in named:
        found = compiled(tmp_path, with_key(recipe, "model.name", name)).diagnostics
        assert not [one.code for one in found if one.code.startswith("E")]


def test_no_model_is_taken_for_pretraining_that_a_recipe_could_not_name(tmp_path: Path) -> None:
    recipe = with_key(BASES["pretrain"], "model", {"name": "auto", "family": ["gemma"]})
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    if plan is not None:
        named = with_key(BASES["pretrain"], "model.name", plan.stages[0].decisions["model"].value)
        assert not [found for found in compiled(tmp_path, named).diagnostics if found.code.startswith("E")]


@pytest.mark.parametrize(
    ("beside", "key"),
    [
        ({}, "train.global_batch_size"),
        ({"data.train": "chat.jsonl"}, "train.grpo.global_batch_size"),
        ({"train.grpo": {"global_batch_size": 256}}, "train.grpo.global_batch_size"),
        ({"train.global_batch_size": 256}, "train.global_batch_size"),
    ],
)
def test_long_answers_fit_with_fewer_of_them_in_a_step(tmp_path: Path, beside: dict[str, Any], key: str) -> None:
    """The smaller batch is planned, told with its memory, and is that of the stage alone."""
    recipe = with_key(with_key(BASES["grpo"], "alignment.generation.max_new_tokens", 4096), "model.name", SMALL)
    for written, value in beside.items():
        recipe = with_key(recipe, written, value)
    (finding,) = (found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402")
    ((line, size, gib),) = (
        (line, *found.groups())
        for line in finding.help
        if (found := re.match(rf"set `{key} = (\d+)`.* then fits in ([\d.]+) GiB", line))
    )
    found = compiled(tmp_path, with_key(recipe, key, int(size)))
    assert not [one for one in found.diagnostics if one.code in ("E0402", "W0501")]
    assert f"{found.plan.stages[-1].memory.peak_allocated_bytes / 2**30:.1f}" == gib
    assert f"the whole run takes {duration(found.plan.seconds)}" in line
