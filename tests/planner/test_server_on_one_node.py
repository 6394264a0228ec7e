"""vLLM as a server on one node is proposed where the recipe names no engine: by its whole run, and where it fits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from msgspec.structs import replace
from test_mending import applied

from recipec.axes.generators import GENERATORS, VLLM
from recipec.estimate.cost import Cost
from recipec.planner import Plan
from recipec.planner.advice import other_engines, whole_runs
from recipec.units import duration, usd

COPY = '`alignment.generation.engine = "vllm"`'
SERVER = '`alignment.generation.engine = "vllm-server"`'


@pytest.fixture
def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPUs share a copy of the weights beside the training, as with a model whose heads they do not divide."""
    monkeypatch.setitem(GENERATORS, VLLM.name, replace(VLLM, splits=(1,)))


def full_32b(nodes: int) -> Tables:
    """Answers of 4,096 tokens, for which all weights of a large model take nodes of their own."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes, "network_gbps": 3200}
    tables = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen3-32B"), "hardware", hardware)
    tables = with_key(with_key(tables, "data.examples", 12_000), "train.adaptation", "full")
    return with_key(tables, "alignment.generation", {"per_prompt": 8, "max_new_tokens": 4096})


def planned(folder: Path, tables: Tables) -> Plan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan


def test_a_server_on_one_of_several_nodes_is_proposed_where_it_is_cheaper(tmp_path: Path, unshared: None) -> None:
    recipe = full_32b(3)
    now = planned(tmp_path, recipe)
    (line,) = [line for line in now.stages[0].options if SERVER in line]
    assert line.startswith(f"set {SERVER} and `hardware.nodes = 1`: vLLM writes the answers")
    then = planned(tmp_path, applied(recipe, line))
    assert then.stages[0].layout.served_by and then.cost_usd < 0.5 * now.cost_usd
    assert f"takes {duration(then.seconds)} instead of {duration(now.seconds)}" in line
    assert f"{usd(then.cost_usd)} instead of {usd(now.cost_usd)}" in line


def test_groups_of_gpus_that_share_a_copy_are_proposed_where_they_are_cheaper(tmp_path: Path) -> None:
    """They take no GPU from the training, and stay on all of its nodes."""
    recipe = full_32b(3)
    now = planned(tmp_path, recipe)
    (line,) = [line for line in now.stages[0].options if COPY in line]
    then = planned(tmp_path, applied(recipe, line))
    assert then.stages[0].layout.engine_tensor_parallel > 1 and then.seconds < 0.5 * now.seconds
    assert f"{usd(then.cost_usd)} instead of {usd(now.cost_usd)}" in line


def test_a_group_is_a_way_out_where_no_engine_is_named(tmp_path: Path) -> None:
    recipe = with_key(with_key(full_32b(1), "hardware.network_gbps", None), "hardware.nodes", None)
    (problem,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "E0402"]
    (line,) = [line for line in problem.help if COPY in line]
    then = planned(tmp_path, applied(recipe, line))
    assert then.stages[0].layout.engine_tensor_parallel > 1 and usd(then.cost_usd) in line


def test_a_server_is_a_way_out_where_no_engine_is_named(tmp_path: Path, unshared: None) -> None:
    recipe = with_key(with_key(full_32b(1), "hardware.network_gbps", None), "hardware.nodes", None)
    (problem,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "E0402"]
    (line,) = [line for line in problem.help if SERVER in line]
    assert usd(planned(tmp_path, applied(recipe, line)).cost_usd) in line
    named = with_key(recipe, "alignment.generation.engine", "transformers")
    (problem,) = [each for each in compiled(tmp_path, named, only_plan=True).diagnostics if each.code == "E0402"]
    assert not [line for line in problem.help if SERVER in line], "what the recipe names is not replaced"


@pytest.mark.parametrize(("seconds", "dollars", "pays"), [(80, 10, True), (150, 8, True), (95, 9.5, False)])
def test_another_engine_pays_where_it_is_clearly_shorter_or_cheaper(seconds: int, dollars: float, pays: bool) -> None:
    run, now = Cost(seconds, dollars, ""), Cost(100, 10.0, "")
    assert whole_runs.pays(run, now, other_engines.SAVES) is pays


def test_fewer_gpus_that_write_are_proposed_where_the_run_is_then_clearly_shorter(tmp_path: Path) -> None:
    """Two leave four GPUs that share the batch equally, and one leaves five that train faster all the same."""
    recipe = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen2.5-0.5B-Instruct"), "data.examples", 5_000)
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 6})
    recipe = with_key(recipe, "alignment.generation", {"engine": "vllm-server"})
    now = planned(tmp_path, recipe)
    (line,) = [line for line in now.stages[0].options if "server_gpus" in line]
    then = planned(tmp_path, applied(recipe, line))
    assert (now.stages[0].layout.served_by, then.stages[0].layout.served_by) == (2, 1)
    assert f"takes {duration(then.seconds)} instead of {duration(now.seconds)}" in line
    assert then.seconds < 0.9 * now.seconds and usd(then.cost_usd) in line
    stated = with_key(recipe, "alignment.generation.server_gpus", 2)
    assert not [line for line in planned(tmp_path, stated).stages[0].options if "server_gpus = " in line]


def test_an_engine_is_proposed_with_the_batch_beside_which_it_fits(tmp_path: Path) -> None:
    """With 128 answers at once vLLM does not fit beside the training on one GPU."""
    recipe = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen3-4B"), "hardware", {"gpu": "h100"})
    recipe = with_key(recipe, "alignment.generation", {"max_new_tokens": 2_048, "per_prompt": 8})
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    (line,) = [line for line in plan.stages[0].options if '`alignment.generation.engine = "vllm"`' in line]
    for key, value in re.findall(r"`([\w.]+) = (\S+?)`", line):
        recipe = with_key(recipe, key, json.loads(value))
    then = compiled(tmp_path, recipe, only_plan=True).plan.stages[0]
    assert "`train.global_batch_size = 64`" in line and duration(then.run_seconds) in line
