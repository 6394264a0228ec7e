"""A plan tells of a value that its recipe states, and that costs clearly more than another one: each line holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner.plan import StagePlan
from recipec.units import duration, usd

LONG = BASES["lora-single"] | {
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "host_memory_gib": 2000},
    "train": {"adaptation": "full", "packing": True},
}


def long_rows(**train: object) -> Tables:
    """The recipe of rows with 12,000 tokens each."""
    tables = LONG
    for key, value in {"examples": 200_000, "tokens_per_example": 12_000, "max_length": 65_536}.items():
        tables = with_key(tables, f"data.{key}", value)
    for key, value in train.items():
        tables = with_key(tables, f"train.{key}", value)
    return tables


def stage(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[-1]


def holds(folder: Path, tables: Tables, line: str) -> StagePlan:
    """The plan with a line taken, of which the line tells time and money beside those of now."""
    now, then = stage(folder, tables), stage(folder, applied(tables, line))
    assert f"takes {duration(then.run_seconds)} instead of {duration(now.run_seconds)}" in line
    assert f"{usd(then.cost_usd)} instead of {usd(now.cost_usd)}" in line
    return then


def test_stated_packing_with_a_mask_is_told_what_it_costs(tmp_path: Path) -> None:
    recipe = long_rows()
    now = stage(tmp_path, recipe)
    kernel, alone = now.options[:2]
    assert kernel.startswith('set `train.attention = "torch_varlen"`: packed rows take 0.')
    assert alone.startswith("set `train.packing = false`: rows that are not packed take 0.")
    for line, packed in ((kernel, True), (alone, False)):
        then = holds(tmp_path, recipe, line)
        assert then.layout.packing is packed and then.seconds < 0.3 * now.seconds
    assert "with the mask, training takes 3.7x the time that it takes without packing" in (
        now.decisions["packing"].because
    )


def test_stated_attention_stays_where_stated_packing_is_told_of(tmp_path: Path) -> None:
    found = stage(tmp_path, long_rows(attention="torch_varlen"))
    assert not any("packed" in line for line in found.options)
    assert "mask" not in found.decisions["packing"].because
    (line,) = (line for line in stage(tmp_path, long_rows(attention="sdpa")).options if "packed" in line)
    assert line.startswith("set `train.packing = false`")


@pytest.mark.parametrize("attention", ["sdpa", ""])
def test_rows_of_their_own_are_told_what_packing_would_save(tmp_path: Path, attention: str) -> None:
    keys = {"attention": attention} if attention else {}
    recipe = long_rows(packing=False, **keys)
    recipe = with_key(with_key(recipe, "data.tokens_per_example", 700), "data.max_length", 4096)
    lines = [line for line in stage(tmp_path, recipe).options if "packed rows" in line]
    asked = "set `train.packing = true`" if attention else 'set `train.attention = "torch_varlen"` and `train.packing'
    assert len(lines) == 1 and lines[0].startswith(asked)
    assert holds(tmp_path, recipe, lines[0]).layout.packing


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ({"engine": "vllm-server"}, 'set `alignment.generation.engine = "vllm"`: vLLM writes the answers on the GPUs'),
        (
            {"engine": "vllm-server", "server_gpus": 2},
            'set `alignment.generation.engine = "vllm"` and remove `alignment.generation.server_gpus`: vLLM',
        ),
        ({"engine": "transformers"}, 'set `alignment.generation.engine = "vllm"`: vLLM writes the answers on the GPUs'),
        ({"engine": "vllm"}, ""),
    ],
)
def test_a_stated_engine_is_told_what_another_one_takes(tmp_path: Path, keys: Tables, asked: str) -> None:
    recipe = with_key(BASES["grpo"], "model.name", "Qwen/Qwen2.5-14B-Instruct")
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 8, "host_memory_gib": 2000})
    recipe = with_key(with_key(recipe, "data.examples", 40_000), "train.adaptation", "full")
    recipe = with_key(recipe, "alignment.generation", {"per_prompt": 16, "max_new_tokens": 4096, **keys})
    lines = [line for line in stage(tmp_path, recipe).options if "alignment.generation.engine" in line]
    assert len(lines) == bool(asked) and all(line.startswith(asked) for line in lines)
    for line in lines:
        assert ("the package vllm" in line) is (keys["engine"] == "transformers")
        assert holds(tmp_path, recipe, line).cost_usd < 0.8 * stage(tmp_path, recipe).cost_usd


PAIRS = with_key(with_key(BASES["sft-dpo"], "model.name", "Qwen/Qwen2.5-32B-Instruct"), "data.examples", 400_000)
PAIRS = with_key(with_key(PAIRS, "data.tokens_per_example", 1500), "data.max_length", 4096)
NODES = {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "host_memory_gib": 2000}
SMALL = with_key(BASES["lora-single"], "hardware", {"gpu": "rtx-4090", "gpus_per_node": 4, "host_memory_gib": 2000})
SMALL = with_key(with_key(SMALL, "model.name", "meta-llama/Llama-3.1-8B"), "data.examples", 20_000)
SMALL = with_key(with_key(SMALL, "data.tokens_per_example", 500), "data.max_length", 2048)


@pytest.mark.parametrize(
    ("recipe", "train", "asked"),
    [
        (PAIRS | {"hardware": NODES}, {"adaptation": "full", "strategy": "fsdp"}, "remove `train.strategy`"),
        (PAIRS | {"hardware": NODES}, {"adaptation": "full", "strategy": "zero3"}, ""),
        (SMALL, {"adaptation": "lora", "activation_checkpointing": False}, "remove `train.activation_checkpointing`"),
        (SMALL, {"adaptation": "lora", "strategy": "ddp", "offload": "none"}, ""),
        (SMALL, {"adaptation": "lora", "precision": "fp32"}, ""),
    ],
)
def test_a_value_that_only_decides_how_a_stage_runs_is_told_what_it_costs(
    tmp_path: Path, recipe: Tables, train: Tables, asked: str
) -> None:
    """Where it costs a quarter or more; what decides the quality stays untouched."""
    recipe = recipe | {"train": train}
    lines = [line for line in stage(tmp_path, recipe).options if line.startswith("remove")]
    assert len(lines) == bool(asked) and all(line.startswith(asked) for line in lines)
    for line in lines:
        assert holds(tmp_path, recipe, line).cost_usd < 0.8 * stage(tmp_path, recipe).cost_usd
