"""Activations in host memory where memory of the GPUs keeps micro batches small, and larger ones are clearly faster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner import StagePlan
from recipec.planner.search.bounds import TIE
from recipec.units import GIB

ROWS = {"train": "chat.jsonl", "examples": 50_000, "tokens_per_example": 1200, "max_length": 4096}
NODE = {"gpu": "h200", "gpus_per_node": 4, "host_memory_gib": 1800, "cpu_cores": 96}
LARGE = with_key(with_key(BASES["lora-single"], "model.name", "openai/gpt-oss-120b"), "data", ROWS)
LARGE = with_key(with_key(LARGE, "hardware", NODE), "train", {"adaptation": "lora"})


def stage(folder: Path, recipe: Tables) -> StagePlan:
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan
    return plan.stages[0]


def test_activations_leave_the_gpus_where_a_larger_micro_batch_is_clearly_faster(tmp_path: Path) -> None:
    found, on_gpus = stage(tmp_path, LARGE), stage(tmp_path, with_key(LARGE, "train.activation_offload", False))
    assert found.layout.activation_offload and not on_gpus.layout.activation_offload
    assert found.layout.micro_batch > on_gpus.layout.micro_batch
    assert (1 + TIE) * found.seconds < on_gpus.seconds


def test_fewer_gpus_are_advised_with_the_same_layout_at_less_cost(tmp_path: Path) -> None:
    recipe = with_key(LARGE, "hardware.gpus_per_node", 8)
    (idle,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "W0503"]
    (line,) = [each for each in idle.help if each.startswith("set `hardware.gpus_per_node = 4`")]
    now, then = stage(tmp_path, recipe), stage(tmp_path, applied(recipe, line))
    assert then.layout == now.layout and then.cost_usd < 0.51 * now.cost_usd


def test_a_larger_micro_batch_is_told_with_what_it_takes_in_host_memory(tmp_path: Path) -> None:
    rows = {"train": "chat.jsonl", "examples": 12_000, "tokens_per_example": 450, "max_length": 2048}
    recipe = with_key(with_key(LARGE, "model.name", "Qwen/Qwen3-14B"), "data", rows)
    recipe = with_key(with_key(recipe, "hardware", {"gpu": "rtx-4090"}), "train", {"adaptation": "qlora"})
    now = stage(tmp_path, recipe)
    (line,) = [each for each in now.options if each.startswith("a micro batch of ")]
    told = r"a micro batch of (\d+) needs .* usable; with activations in host memory it fits in (\S+) GiB .* (\S+)x .*"
    size, peak, ratio = re.fullmatch(told, line).groups()
    for key, value in (("micro_batch_size", int(size)), ("activation_offload", True)):
        recipe = with_key(recipe, f"train.{key}", value)
    then = stage(tmp_path, recipe)
    assert then.memory.peak_allocated_bytes / GIB == pytest.approx(float(peak), abs=0.06)
    assert then.seconds / now.seconds == pytest.approx(float(ratio), abs=0.06) and then.seconds < now.seconds


def test_an_option_says_what_else_its_plan_takes(tmp_path: Path) -> None:
    """FSDP2 has no AdamW in 8 bits."""
    (line,) = [
        each for each in stage(tmp_path, LARGE).options if each.startswith('set `train.optimizer = "adamw-8bit"`')
    ]
    then = stage(tmp_path, applied(LARGE, line)).layout
    assert then.strategy == "zero3" and ", with zero3; recipec keeps " in line


def test_nodes_with_more_host_memory_are_named_where_less_is_stated(tmp_path: Path) -> None:
    recipe = with_key(LARGE, "hardware.gpus_per_node", 8)
    (line,) = [each for each in stage(tmp_path, recipe).options if each.startswith("set `hardware.host_memory_gib = ")]
    now, then = stage(tmp_path, recipe), stage(tmp_path, applied(recipe, line))
    assert " with nodes that have it: " in line and then.layout.gpus == 8
    assert then.cost_usd < 0.6 * now.cost_usd
