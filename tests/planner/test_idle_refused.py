"""GPUs are idle because of a value that more of them do not support: it is named, and planned without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key, without

from recipec.units import duration, usd

EIGHT: Tables = with_key(BASES["lora-single"], "hardware", {"gpu": "h100", "gpus_per_node": 8})
FP8 = with_key(with_key(EIGHT, "model.name", "Qwen/Qwen3-4B"), "train", {"adaptation": "full", "fp8": True})
FP8 = with_key(FP8, "data", {"train": "chat.jsonl", "examples": 400_000, "tokens_per_example": 800})
ROWS = {"train": "chat.jsonl", "general": "general.jsonl", "examples": 400_000, "tokens_per_example": 800}
HELD = {"adaptation": "full", "ewc": {"strength": 10.0}}
ELASTIC = with_key(
    with_key(with_key(EIGHT, "model.name", "meta-llama/Llama-3.2-3B-Instruct"), "data", ROWS), "train", HELD
)
DISPATCHED = {
    "recipe": {"name": "mixture"},
    "goal": {"task": "pretrain"},
    "model": {"name": "Qwen/Qwen3-30B-A3B-Base"},
    "data": {"train": "manual.txt", "examples": 9_600_000, "tokens_per_example": 1030},
    "hardware": {"gpu": "h200", "gpus_per_node": 8, "nodes": 4, "network_gbps": 3200, "host_memory_gib": 2000},
    "train": {"loop": "deepspeed", "expert_parallel": 8, "experts": {"capacity_factor": 1.25}},
}
CASES = {
    "BAD-193": (FP8, ["train.fp8"], 8),
    "BAD-181": (ELASTIC, ["train.ewc", "data.general"], 8),
    "BAD-214": (DISPATCHED, ["train.loop", "train.experts", "train.expert_parallel"], 32),
}


@pytest.mark.parametrize("row", CASES)
def test_the_key_that_keeps_gpus_idle_is_named_and_planned_without(tmp_path: Path, row: str) -> None:
    recipe, keys, gpus = CASES[row]
    compilation = compiled(tmp_path, recipe, only_plan=True)
    (idle,) = (found for found in compilation.diagnostics if found.code == "W0503")
    removal, *_, fewer = idle.help
    assert f"({row})" in fewer and "is not supported" in fewer
    assert re.findall("`([^`]+)`", removal.partition(": ")[0]) == keys and removal.startswith("remove ")
    now, then = compilation.plan, compiled(tmp_path, without(recipe, *keys), only_plan=True).plan
    assert now is not None and then is not None and then.stages[0].layout.mesh.world_size == gpus
    assert removal.endswith(f"and {usd(then.cost_usd)} instead of {usd(now.cost_usd)}")


def test_no_key_is_named_whose_removal_gives_more_gpus_no_work(tmp_path: Path) -> None:
    """Of a batch of one sequence one GPU has work, with FP8 and without."""
    stated = with_key(FP8, "train.global_batch_size", 1)
    (idle,) = (found for found in compiled(tmp_path, stated).diagnostics if found.code == "W0503")
    assert not any("fp8" in line or "BAD-" in line for line in idle.help)


KTO: Tables = {
    "recipe": {"name": "case"},
    "goal": {"task": "align"},
    "model": {"name": "meta-llama/Llama-3.3-70B-Instruct"},
    "data": {"preferences": {"hub": "org/labels", "format": "unpaired-preference"}, "examples": 50_000}
    | {"tokens_per_example": 800, "max_length": 2048},
    "hardware": {"gpu": "a100-80gb", "gpus_per_node": 8, "nodes": 2, "network_gbps": 100},
    "alignment": {"method": "kto"},
    "train": {"adaptation": "lora", "precision": "bf16", "strategy": "zero3"},
}


def test_a_stated_value_that_keeps_gpus_idle_is_named_without_a_row_against_it(tmp_path: Path) -> None:
    """ZeRO-3 is supported on 16 GPUs, and there the network makes it slower than on 8: HSDP is clearly faster."""
    compilation = compiled(tmp_path, KTO, only_plan=True)
    (idle,) = (found for found in compilation.diagnostics if found.code == "W0503")
    (removal,) = (line for line in idle.help if line.startswith("remove "))
    assert removal.startswith("remove `train.strategy`: hsdp on 16 GPUs then takes ")
    now, then = compilation.plan, compiled(tmp_path, without(KTO, "train.strategy"), only_plan=True).plan
    assert now is not None and then is not None and then.stages[0].layout.gpus == 16
    assert removal.endswith(
        f"the whole run takes {duration(then.seconds)} instead of {duration(now.seconds)} "
        f"and {usd(then.cost_usd)} instead of {usd(now.cost_usd)}"
    )
