"""Beside other stages, an option names the key of its stage, or holds for all of them, and counts its own stage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner import Plan
from recipec.planner.advice.change import setting
from recipec.planner.advice.ways_out import holds_for
from recipec.planner.planner import contexts
from recipec.units import duration, usd

THREE: Tables = {
    "recipe": {"name": "case"},
    "goal": {"task": "align"},
    "model": {"name": "Qwen/Qwen2.5-7B"},
    "data": {
        "train": "chat.jsonl",
        "preferences": "pairs.jsonl",
        "examples": 30_000,
        "tokens_per_example": 400,
        "max_length": 2048,
    },
    "hardware": {"gpu": "a100-80gb", "gpus_per_node": 6, "nodes": 3, "network_gbps": 100},
    "alignment": {"kl_control": "high"},
}


def planned(folder: Path, recipe: Tables) -> Plan:
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan is not None
    return plan


def test_an_option_of_one_of_several_stages_comes_true(tmp_path: Path) -> None:
    """PPO reads no packed rows: the key of all stages would be refused."""
    (line,) = (line for line in planned(tmp_path, THREE).stages[0].options if "torch_varlen" in line)
    assert line.startswith('set `train.sft.attention = "torch_varlen"`: ')
    then = planned(tmp_path, applied(THREE, line))
    assert [stage.layout.packing for stage in then.stages] == [True, False, False]


def test_an_option_of_one_of_several_stages_counts_that_stage(tmp_path: Path) -> None:
    plan = planned(tmp_path, THREE)
    now = plan.stages[0]
    (line,) = (line for line in now.options if "torch_varlen" in line)
    then = planned(tmp_path, applied(THREE, line)).stages[0]
    took, money = duration(then.run_seconds), usd(then.cost_usd)
    assert f"; stage sft takes {took} instead of {duration(now.run_seconds)} and {money} instead of" in line
    assert "of stage ppo at" in plan.stages[-1].cost_because


def test_other_hardware_counts_all_stages(tmp_path: Path) -> None:
    """Every stage runs on it, whichever it is proposed for."""
    now = planned(tmp_path, THREE)
    (line,) = (line for stage in now.stages for line in stage.options if line.startswith("set `hardware.nodes"))
    then = planned(tmp_path, applied(THREE, line))
    took, money = duration(then.seconds), usd(then.cost_usd)
    assert f"the whole run takes {took} instead of {duration(now.seconds)} and {money} instead of" in line


@pytest.mark.parametrize(("gpu", "holds"), [("b200", True), ("rtx-4090", False)])
def test_fewer_gpus_are_an_option_where_other_stages_fit_on_them(tmp_path: Path, gpu: str, holds: bool) -> None:
    """All weights of 7B fit on one GPU of 180 GiB, and on none of 24 GiB."""
    recipe = with_key(with_key(THREE, "hardware.gpu", gpu), "train.adaptation", "full")
    found = compiled(tmp_path, recipe, only_plan=True)
    others = contexts(found.recipe, found.facts)[:1]
    assert holds_for(setting(hardware__nodes=1, hardware__gpus_per_node=1), others, found.recipe) is holds


def test_the_only_stage_is_the_whole_run(tmp_path: Path) -> None:
    (stage,) = planned(tmp_path, {**BASES["grpo"], "hardware": {"gpu": "h100"}}).stages
    told = [line for line in stage.options if re.search(r"; (the whole run|stage \w+) takes", line)]
    assert told and all("the whole run takes" in line for line in told)
