"""Rows of the rule books that the planner keeps to, from `seed-rows.md`: small recipes, and what their plans take."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, OF_METHOD, compiled, good, with_key
from test_seed_rows import PLANNER

from recipec.axes import METHODS
from recipec.rules.evaluation import rows_left

LONG = {"data.max_length": 32_768, "data.tokens_per_example": 30_000}
FOUR_SMALL = {"hardware": {"gpu": "rtx-4090", "gpus_per_node": 4, "host_memory_gib": 256}}
ROWS = {  # row -> base, keys, and what the layout must be
    "003 Distributed training: 1 GPU": ("lora-single", {}, {"strategy": ("single",)}),
    "003 Distributed training: 2-8 GPUs, model fits 1 GPU: DDP": ("lora-ddp", {}, {"strategy": ("ddp",)}),
    "003 Distributed training: model won't fit 1 GPU: FSDP": ("full-fsdp", {}, {"strategy": ("fsdp",)}),
    "003 Distributed training: DeepSpeed Stage 2 for memory pressure": (
        "full-fsdp",
        {"train.optimizer": "adamw-8bit"},
        {"strategy": ("zero1", "zero2", "zero3")},
    ),
    "003 Distributed training: or DeepSpeed ZeRO-3 with CPU offload": (
        "zero3-offload",
        {**FOUR_SMALL, "train": {"adaptation": "full"}},
        {"strategy": ("zero1", "zero2", "zero3"), "offload": ("cpu", "optimizer")},
    ),
    "002 Step 2: offload_optimizer and offload_param off": ("full-fsdp", {}, {"offload": ("none",)}),
    "004 Golden Rules: start with DDP, scale to FSDP or DeepSpeed": (
        "lora-single",
        {"hardware.gpus_per_node": 4},
        {"strategy": ("ddp",)},
    ),
    "004 Anti-Patterns: DDP for large models": ("full-fsdp", {"hardware.gpus_per_node": 4}, {"strategy": ("fsdp",)}),
    "000 Gradient Checkpointing, where the model is small": ("cpu", {}, {"checkpointing": (False,)}),
    "004 Anti-Patterns: no gradient checkpointing on long sequences": (
        "lora-single",
        {**LONG, "model.name": "Qwen/Qwen3-4B", "hardware.gpu": "rtx-4090"},
        {"checkpointing": (True,)},
    ),
}


def layout(tmp_path, base: str, keys: dict):
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    found = compiled(tmp_path, recipe, only_plan=True)
    assert found.plan, [str(finding) for finding in found.diagnostics]
    return found.plan.stages[0].layout


@pytest.mark.parametrize("row", ROWS)
def test_a_plan_keeps_to_the_row(tmp_path, row):
    base, keys, expected = ROWS[row]
    found = layout(tmp_path, base, keys)
    assert all(getattr(found, name) in values for name, values in expected.items()), found


def test_every_planned_row_is_in_the_table():
    assert ROWS.keys() <= {row for row, *_ in PLANNER}


def test_gradient_accumulation_makes_the_global_batch_of_what_fits(tmp_path):
    found = layout(tmp_path, "qlora", {"train.global_batch_size": 64})
    assert found.micro_batch * found.accumulation * found.mesh.data_parallel == 64
    assert found.accumulation > 1


def test_gpus_without_a_share_of_a_small_batch_stay_idle(tmp_path):
    found = layout(tmp_path, "lora-single", {"hardware.gpus_per_node": 8, "train.global_batch_size": 4})
    assert found.mesh.world_size == 4


@pytest.mark.parametrize(("written", "decided"), [("eval", "test"), ("test", "eval")])
def test_a_large_written_share_leaves_rows_to_train_on(tmp_path: Path, written: str, decided: str) -> None:
    """prepare_data.py would stop at 100 rows of which 95 and 10 were held out."""
    recipe = with_key(with_key(BASES["lora-single"], "data.examples", 100), f"data.{written}_fraction", 0.95)
    found = good(tmp_path, recipe)
    decisions = found.plan.stages[0].decisions
    assert decisions[f"{decided}_fraction"].value == 0.025
    assert rows_left({name: decision.value for name, decision in decisions.items()}) == 3
    readme = next(file.text for file in found.files if file.path == "README.md")
    assert "95% of the rows for" in readme and "2.5% of the rows for" in readme


@pytest.mark.parametrize("name", sorted({*OF_METHOD.values()}))
def test_a_default_of_a_method_cites_its_own_source(tmp_path: Path, name: str) -> None:
    """Not the list of all the sources that its rule has for other methods."""
    for stage in good(tmp_path, BASES[name]).plan.stages:
        row = METHODS[stage.stage.name]
        for id in ("warmup", "epochs", "weight_decay", "adam_beta2"):
            decision = stage.decisions[id]
            if decision.origin == "default":
                assert decision.source in {default.source for default in getattr(row, id)}, id
