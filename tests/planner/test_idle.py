"""GPUs that would be idle: a larger batch of those that the rule accepts comes first, and the obstacle is a row."""

from __future__ import annotations

from pathlib import Path

from compiling import compiled, with_key

from recipec.planner.plan import StagePlan

Tables = dict

LORA: Tables = {
    "recipe": {"name": "idle"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 500},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 8, "network_gbps": 1600},
}


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[0]


def test_the_batch_is_raised_before_nodes_are_idle(tmp_path: Path) -> None:
    stage = planned(tmp_path, LORA)
    batch = stage.decisions["global_batch_size"]
    assert batch.value == 64 and "raised from 32" in batch.because
    assert batch.accepts and batch.value <= batch.accepts[1]
    stated = planned(tmp_path, with_key(LORA, "train.global_batch_size", 32))
    assert stated.layout.mesh.world_size < stage.layout.mesh.world_size
    assert stated.value("global_batch_size") == 32, "what the recipe says is not raised"


def test_few_rows_keep_the_usual_batch(tmp_path: Path) -> None:
    assert planned(tmp_path, with_key(LORA, "data.examples", 1_000)).value("global_batch_size") == 32


def test_the_obstacle_is_a_row(tmp_path: Path) -> None:
    starved = planned(tmp_path, with_key(LORA, "train.global_batch_size", 32))
    (row,) = (row for row in starved.rejected if row.family == "LoRA on 64 GPUs")
    assert row.reason.startswith("the global batch has 32 sequences")
    slow = with_key(with_key(LORA, "hardware.network_gbps", 1), "train.adaptation", "full")
    (row,) = (row for row in planned(tmp_path, slow).rejected if row.family.endswith("on 64 GPUs"))
    assert "x the time" in row.reason
