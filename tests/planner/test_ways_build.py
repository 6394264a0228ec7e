"""A change that E0402 proposes builds once it is followed, or says what else has to be changed."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, Tables, codes, compiled, with_key
from test_mending import applied

from recipec.layout import Machines
from recipec.planner.advice import ways_out
from recipec.planner.advice.ways_out import _idle
from recipec.planner.search.fit import fit
from recipec.recipe.changed import agrees
from recipec.units import duration, usd


def case(base: str, model: str, gpu: str, gpus: int = 1, **train: object) -> Tables:
    recipe = with_key(with_key(BASES[base], "model.name", model), "hardware", {"gpu": gpu, "gpus_per_node": gpus})
    return with_key(recipe, "train", train) if train else recipe


SERVED = with_key(case("grpo", "meta-llama/Llama-3.1-70B-Instruct", "l40s", 4, adaptation="full"), "alignment", {})
SERVED = with_key(SERVED, "alignment", {"method": "grpo", "reward": "judge.py:is_right"})
SERVED = with_key(SERVED, "alignment.generation", {"engine": "vllm-server", "max_new_tokens": 512})
SERVED = with_key(SERVED, "data.train", "chat.jsonl")
REFUSED = {
    "a layout": case("lora-ddp", "Qwen/Qwen3-32B", "t4", 2, adaptation="lora", tensor_parallel=2),
    "two layouts": case("lora-ddp", "Qwen/Qwen3-32B", "t4", 2, adaptation="lora", tensor_parallel=2, strategy="ddp"),
    "a precision": case("ppo", "Qwen/Qwen2.5-7B-Instruct", "t4", precision="fp16", adaptation="full"),
    "a server": SERVED,
    "a model": with_key(case("ppo", "Qwen/Qwen3-30B-A3B", "rtx-3060-12gb"), "data.train", "chat.jsonl"),
    "no warmup": case("ppo", "Qwen/Qwen2.5-32B-Instruct", "rtx-3060-12gb", max_steps=1),
    "all keys of a table": with_key(
        case("grpo", "Qwen/Qwen2.5-72B", "a100-40gb", 6, strategy="zero3", adaptation="qlora"),
        "alignment.generation",
        {"engine": "vllm-server", "server_gpus": 1},
    ),
    "intervals": case("lora-single", "Qwen/Qwen2.5-32B", "t4", eval_every=0.2, save_every=0.5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_mends_what_it_does_not_name(tmp_path: Path, name: str) -> None:
    found = compiled(tmp_path, REFUSED[name], only_plan=True).diagnostics
    lines = [line for each in found if each.code == "E0402" for line in each.help]
    assert lines
    for line in lines:
        left = {code for code in codes(compiled(tmp_path, applied(REFUSED[name], line))) if code.startswith("E")}
        assert left == {*re.findall(r"fix (E\d+) of stage", line)}, line


def test_a_server_is_not_proposed_more_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E0401 refuses a server beside a training on several nodes, which are not planned either: 64 take seconds."""
    planned: list[int] = []
    monkeypatch.setattr(
        ways_out, "fit", lambda context, *more: planned.append(context.facts.machines.nodes) or fit(context, *more)
    )
    (problem,) = [each for each in compiled(tmp_path, SERVED, only_plan=True).diagnostics if each.code == "E0402"]
    assert problem.help and not any("hardware.nodes" in line for line in problem.help)
    assert {*planned} == {1}


CUT = with_key(case("grpo", "Qwen/Qwen3-0.6B", "h100", 6, strategy="zero3"), "data.max_length", 128)
CUT = with_key(with_key(CUT, "train.global_batch_size", 24), "train.micro_batch_size", 8)


@pytest.mark.parametrize(("most", "over"), [(1, True), (100_000, False)])
def test_a_supported_combination_is_told_with_its_run(tmp_path: Path, most: float, over: bool) -> None:
    """E0405 told of none, so that E0403 came next."""
    recipe = with_key(CUT, "budget.max_cost_usd", most)
    (found,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "E0405"]
    free = with_key(recipe, "budget", None)
    for line in found.help:
        plan = compiled(tmp_path, applied(free, line), only_plan=True).plan
        assert plan is not None and plan.cost_usd is not None, line
        assert f"the whole run takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)}" in line
        assert ("over budget: " in line) is over


def test_a_stage_that_a_change_mends_is_counted(tmp_path: Path) -> None:
    """The server has no room for the model of 70B, and for that of 8B it has."""
    (problem,) = [each for each in compiled(tmp_path, SERVED, only_plan=True).diagnostics if each.code == "E0402"]
    (line,) = [line for line in problem.help if "model.name" in line]
    then = compiled(tmp_path, applied(SERVED, line), only_plan=True).plan
    assert then is not None and f"the whole run takes {duration(then.seconds)}" in line
    assert all("whose time is not counted" in other for other in problem.help if other != line)


def test_a_fix_that_was_not_planned_says_so(tmp_path: Path) -> None:
    found = compiled(tmp_path, REFUSED["a layout"], only_plan=True).diagnostics
    (problem,) = [each for each in found if each.code == "E0405"]
    assert problem.help[0].endswith("(BAD-021)") and "recipec did not plan this fix" in problem.notes[0]
    fits = with_key(REFUSED["a layout"], "model.name", "Qwen/Qwen3-8B")
    (problem,) = [each for each in compiled(tmp_path, fits, only_plan=True).diagnostics if each.code == "E0405"]
    assert "then fits" in problem.help[0] and not any("did not plan" in note for note in problem.notes)


def test_a_recipe_agrees_with_itself_or_not(tmp_path: Path) -> None:
    loaded = compiled(tmp_path, SERVED, only_plan=True).recipe
    assert loaded is not None
    nodes = (("hardware.nodes", 2),)
    assert agrees(loaded, (), ()) and not agrees(loaded, nodes, ())
    assert agrees(loaded, nodes, ("alignment.generation.engine",))
    assert agrees(loaded, (*nodes, ("alignment.generation.engine", "vllm")), ())


def test_a_machine_is_not_proposed_with_gpus_that_are_idle_and_paid(tmp_path: Path) -> None:
    """PPO of all weights fits on one B200: seven more of them cost six times as much."""
    tables = with_key(with_key(BASES["sft-dpo"], "train", {"adaptation": "full"}), "data.max_length", 2048)
    tables = with_key(tables, "hardware", {"gpu": "h100", "gpus_per_node": 8, "host_memory_gib": 2000})
    tables |= {"alignment": {"kl_control": "high", "generation": {"max_new_tokens": 512}}}
    (problem,) = [each for each in compiled(tmp_path, tables, only_plan=True).diagnostics if each.code == "E0402"]
    (line,) = [line for line in problem.help if "hardware.gpu = " in line]
    assert line.startswith('set `hardware.gpu = "b200"` and `hardware.gpus_per_node = 1`: ')
    plan = compiled(tmp_path, applied(tables, line), only_plan=True).plan
    assert {stage.layout.gpus for stage in plan.stages} == {1} and usd(plan.cost_usd) in line
    assert not any("idle" in line for line in problem.help)


def test_gpus_that_a_proposal_leaves_idle_are_told_of_their_stage() -> None:
    def stage(label: str, used: int) -> Any:
        context = SimpleNamespace(facts=SimpleNamespace(machines=Machines(1, 8)), stage=SimpleNamespace(label=label))
        return context, SimpleNamespace(chosen=SimpleNamespace(layout=SimpleNamespace(gpus=used)))

    assert [*_idle([stage("sft", 8), stage("ppo", 1)])] == ["7 of 8 GPUs are then idle in stage ppo, and paid"]
    assert [*_idle([stage("sft", 4)])] == ["4 of 8 GPUs are then idle, and paid"]
    assert not [*_idle([stage("sft", 8)])]
