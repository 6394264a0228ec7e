"""What is said of a changed recipe is what its plan says once it is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key, without

from recipec.facts import measured
from recipec.layout import Machines
from recipec.planner.advice.changes import Changes, larger_gpu, more_gpus, more_nodes, on_machines
from recipec.planner.planner import contexts
from recipec.planner.search.context import Context
from recipec.units import duration, usd


def case(model: str, gpu: str | float, **more: Any) -> Tables:
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "data.max_length", 4096)
    named = {"gpu": gpu} if isinstance(gpu, str) else {"vram_gib": gpu}
    recipe = with_key(with_key(recipe, "hardware", named), "train", {})
    for key, value in more.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


VARLEN = {"adaptation": "lora", "quantization": "none", "attention": "torch_varlen", "micro_batch_size": 1}
VARLEN |= {"activation_offload": False, "global_batch_size": 32, "optimizer": "adamw"}
SERVED = with_key(BASES["grpo"], "alignment.generation", {"engine": "vllm-server", "max_new_tokens": 512})
SERVED = with_key(SERVED, "hardware", {"gpu": "a100-80gb", "gpus_per_node": 8})
REFUSED = {
    "a kernel that smaller cards lack": case("Qwen/Qwen3-8B", "rtx-5090", train=VARLEN, data__max_length=20000),
    "nodes": case("Qwen/Qwen3-14B", "a10g", train__adaptation="full"),
    "a strategy": case(
        "Qwen/Qwen3-8B", "t4", train={"quantization": "none", "strategy": "ddp"}, hardware__gpus_per_node=2
    ),
    "memory alone": case("Qwen/Qwen3-8B", 24, train__adaptation="full"),
    "a CPU": case("Qwen/Qwen3-0.6B", "cpu", train__adaptation="full", hardware__host_memory_gib=4),
    "cores": case("Qwen/Qwen3-4B", "cpu", train__adaptation="lora", hardware__cpu_cores=8),
    "a bridge": case(
        *("Qwen/Qwen3-8B", "rtx-3090"),
        train={"adaptation": "full", "strategy": "ddp"},
        hardware__gpus_per_node=2,
        hardware__gpu_link="nvlink",
    ),
    "a server": with_key(
        with_key(SERVED, "model.name", "meta-llama/Llama-3.1-70B-Instruct"), "train", {"adaptation": "full"}
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_way_out_gives_what_it_says(tmp_path: Path, name: str) -> None:
    (finding,) = (each for each in compiled(tmp_path, REFUSED[name]).diagnostics if each.code.startswith("E04"))
    assert finding.code == "E0402" and finding.help
    for line in finding.help:
        plan = compiled(tmp_path, followed(REFUSED[name], line), only_plan=True).plan
        assert plan is not None, line
        cost = "" if plan.cost_usd is None else f" and costs {usd(plan.cost_usd)}"
        assert f"the whole run takes {duration(plan.seconds)}{cost}" in line
        assert f" {plan.stages[0].memory.peak_allocated_bytes / 2**30:.1f} GiB per GPU" in line


ADAPTERS = with_key(BASES["adapters"], "model.name", "Qwen/Qwen2.5-32B")
SEVERAL = {
    "tasks": with_key(with_key(ADAPTERS, "data", {"max_length": 16384}), "hardware", {"gpu": "t4", "gpus_per_node": 2}),
    "stages": with_key(
        with_key(BASES["sft-dpo"], "model.name", "Qwen/Qwen2.5-32B"), "hardware", {"gpu": "t4", "gpus_per_node": 2}
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_every_way_out_is_one_for_all_tasks_and_stages(tmp_path: Path, name: str) -> None:
    found = [each for each in compiled(tmp_path, SEVERAL[name]).diagnostics if each.code == "E0402"]
    assert len(found) == 2
    lines = {line.partition(": ")[0]: line for each in found for line in each.help}
    if name == "tasks":
        assert all("hardware.host_memory_gib" in "".join(each.help) for each in found)
    for told, line in lines.items():
        plan = compiled(tmp_path, followed(SEVERAL[name], line), only_plan=True).plan
        assert plan is not None, line
        assert f"the whole run takes {duration(plan.seconds)} and costs {usd(plan.cost_usd or 0)}" in line, told


PAIR = Path(__file__).parents[1] / "facts" / "h100-pair.toml"  # two H100, made up
NAMED = "my-node.toml"


def on_pair(folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, **more: Any) -> Tables:
    """A recipe for the node that was measured, with less memory than the catalog's; its file stays new."""
    monkeypatch.setattr(measured, "today", lambda: date(2026, 12, 1))
    (folder / NAMED).write_text(PAIR.read_text().replace("total_gib = 79.11", "total_gib = 78.9"))
    hardware = {"gpu": "h100", "gpus_per_node": 2, "measured": NAMED}
    return with_key(case(model, "h100", **more), "hardware", hardware)


def test_a_way_out_of_a_measured_machine_is_planned_without_its_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is of two H100: of no larger GPU, and of no other number of them."""
    recipe = on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-8B", train={"adaptation": "full", "strategy": "ddp"})
    (finding,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code.startswith("E04"))
    other = [line for line in finding.help if "hardware." in line.partition(": ")[0]]
    assert other and all(" and remove `hardware.measured`: " in line for line in other)
    for line in other:
        plan = compiled(tmp_path, followed(recipe, line), only_plan=True).plan
        assert plan is not None, line
        assert f"the whole run takes {duration(plan.seconds)}" in line
        assert f" {plan.stages[0].memory.peak_allocated_bytes / 2**30:.1f} GiB per GPU" in line


@pytest.mark.parametrize("kind", [larger_gpu, more_gpus, more_nodes], ids=lambda kind: kind.__name__)
def test_of_other_hardware_than_was_measured_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Context], Changes]
) -> None:
    recipe = on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-0.6B")
    found = list(kind(context_of(tmp_path, recipe)))[:2]
    assert found and "h100" not in [dict(change.sets).get("hardware.gpu") for change, _ in found]
    for change, changed in found:
        assert change.removes == ("hardware.measured",)
        then = without(recipe, *change.removes)
        for key, value in change.sets:
            then = with_key(then, key, value)
        assert changed.facts.gpu == context_of(tmp_path, then).facts.gpu and not changed.facts.gpu.measured


def test_more_nodes_of_the_measured_kind_stay_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = context_of(tmp_path, on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-0.6B"))
    assert on_machines(context, Machines(2, 2)).facts.gpu.measured


def test_idle_gpus_of_a_measured_node_go_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-0.6B", train__global_batch_size=1)
    (idle,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code == "W0503")
    assert any("set `hardware.gpus_per_node = 1` and remove `hardware.measured`" in line for line in idle.help)


def test_measured_rates_are_not_compared_with_assumed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU, whose rates nobody measured, would pass for faster than two."""
    recipe = on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-0.6B", train__global_batch_size=8)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan is not None and plan.stages[0].layout.gpus == 2
    assert not any("gpus_per_node" in line for line in plan.stages[0].options)


def test_the_next_better_option_says_what_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = on_pair(tmp_path, monkeypatch, "Qwen/Qwen3-32B")
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan is not None and plan.stages[0].next_better is not None
    assert plan.stages[0].next_better.change == "`hardware.gpus_per_node = 8` without `hardware.measured`"


def followed(recipe: Tables, line: str) -> Tables:
    """A recipe as the line says to write it."""
    told = line.partition(": ")[0]
    for key in re.findall(r"`([\w.]+)`", told):
        recipe = without(recipe, key)
    for key, value in re.findall(r"`([\w.]+) = ([^`]+)`", told):
        recipe = with_key(recipe, key, json.loads(value))
    return recipe


def context_of(folder: Path, recipe: Tables) -> Context:
    compilation = compiled(folder, recipe, only_check=True)
    assert compilation.recipe and compilation.facts
    return contexts(compilation.recipe, compilation.facts)[0]


@pytest.mark.parametrize("kind", [larger_gpu, more_gpus, more_nodes], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("gpu", ["cpu", "rtx-4090", "t4", "mi250x", 24])
def test_what_is_known_of_other_hardware_is_what_a_recipe_with_it_knows(
    tmp_path: Path, kind: Callable[[Context], Changes], gpu: str | float
) -> None:
    """Kernels, number formats, memory, cores and the network: nothing is left of the hardware before."""
    recipe = case("Qwen/Qwen3-0.6B", gpu, train__fp8=False)
    for change, changed in list(kind(context_of(tmp_path, recipe)))[:4]:
        then = without(recipe, *change.removes)
        for key, value in change.sets:
            then = with_key(then, key, value)
        known = changed.facts.decisions
        if "network_gbps" in known and known["network_gbps"].value is None:
            continue  # which the recipe would have to state, too
        written = context_of(tmp_path, then).facts
        assert {id: fact.value for id, fact in known.items()} == {
            id: fact.value for id, fact in written.decisions.items()
        }
        assert changed.facts.gpu == written.gpu


def test_other_gpus_are_proposed_without_a_link_that_they_cannot_have(tmp_path: Path) -> None:
    """Two RTX 3090 may have a bridge; an RTX 5090 takes none."""
    recipe = with_key(case("Qwen/Qwen3-0.6B", "rtx-3090", hardware__gpus_per_node=2), "hardware.gpu_link", "nvlink")
    found = {changed.facts.gpu.name: (change, changed) for change, changed in larger_gpu(context_of(tmp_path, recipe))}
    kept = {name for name, (change, _) in found.items() if not change.removes}
    assert {"rtx-5090", "h100"} <= set(found) and "h100" in kept and "rtx-5090" not in kept
    for change, changed in found.values():
        then = without(with_key(recipe, "hardware.gpu", changed.facts.gpu.name), *change.removes)
        assert compiled(tmp_path, then, only_plan=True).plan
