"""The reasons of a layout compare: each names a number of what was not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.cli.plan import plan_text
from recipec.planner.document import plan_document
from recipec.planner.plan import StagePlan
from recipec.units import duration


def stage(folder: Path, base: str, **keys: object) -> StagePlan:
    recipe: Tables = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    plan = compiled(folder, recipe, only_check=True).plan
    assert plan
    return plan.stages[-1]


@pytest.mark.parametrize(
    ("base", "decision", "clause"),
    [
        ("full-fsdp", "strategy", "; ddp needs "),
        ("full-fsdp", "strategy", "the time, which counts as equal (within 25%), and fsdp is simpler"),
        ("full-fsdp", "offload", "with offload zero1 takes "),
        ("lora-ddp", "strategy", "single takes 2.0x the time"),
        ("qlora", "micro_batch_size", "; 16 needs "),
        ("qlora", "checkpointing", "no layout fits without it: single with a micro batch of 1 needs "),
        ("zero3-offload", "checkpointing", "the best layout without it, zero3 with a micro batch of 2, takes 4."),
        ("pretrain", "checkpointing", "with it a step takes 1.3x the time"),
    ],
)
def test_a_reason_names_what_the_rejected_takes(tmp_path: Path, base: str, decision: str, clause: str) -> None:
    assert clause in stage(tmp_path, base).decisions[decision].because


def test_a_reason_and_the_table_have_one_figure_for_a_layout(tmp_path: Path) -> None:
    """Also where the layout that takes least holds activations in host memory, and so takes another amount."""
    hardware = {"gpu": "a100-80gb", "gpus_per_node": 8}
    model = {"model__name": "meta-llama/Llama-3.3-70B-Instruct", "train": {"adaptation": "lora"}}
    rows = {"data__examples": 1_500, "data__tokens_per_example": 100, "data__max_length": 512}
    found = stage(tmp_path, "lora-single", hardware=hardware, **rows, **model)
    (needed,) = re.findall(r"ddp needs ([0-9.]+) GiB", found.decisions["strategy"].because)
    (row,) = [row for row in found.rejected if row.family == "LoRA, ddp"]
    assert row.reason.startswith(f"needs {needed} GiB allocated")


PAIRS_ON_TWO = {
    "recipe": {"name": "case"},
    "goal": {"task": "align"},
    "model": {"name": "Qwen/Qwen2.5-7B-Instruct"},
    "data": {"preferences": {"hub": "a/b"}},
    "alignment": {"method": "dpo"},
    "train": {"adaptation": "lora", "lora": {"rank": 32}},
    "hardware": {"gpu": "h100", "gpus_per_node": 2},
}
ON_FOUR = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "Qwen/Qwen3-8B"},
    "data": {"train": "chat.jsonl", "examples": 600, "tokens_per_example": 56, "max_length": 256},
    "train": {"adaptation": "lora", "lora": {"rank": 64}, "packing": False, "global_batch_size": 32},
    "hardware": {"gpu": "h100", "gpus_per_node": 4},
}


def test_a_simpler_strategy_is_set_beside_the_fastest(tmp_path: Path) -> None:
    """It is within 25% of the one that is taken, and not of the fastest."""
    plan = compiled(tmp_path, PAIRS_ON_TWO, only_plan=True).plan
    assert plan
    because, found = plan.stages[0].decisions["strategy"].because, {row.family: row for row in plan.stages[0].rejected}
    assert found["LoRA, ddp"].seconds / plan.stages[0].seconds < 1.25
    behind = found["LoRA, ddp"].seconds / found["LoRA, zero1"].seconds - 1
    assert behind > 0.25
    assert (
        f"ddp takes 1.2x the time and {behind:.1%} more than zero1, the fastest (up to 25% counts as equal)" in because
    )
    assert found["LoRA, zero1"].reason == "fits; times within 25% of the fastest count as equal, and fsdp is simpler"


def test_the_time_on_idle_gpus_is_shown_and_what_they_would_save(tmp_path: Path) -> None:
    plan = compiled(tmp_path, ON_FOUR, only_plan=True).plan
    assert plan
    (row,) = [row for row in plan.stages[0].rejected if row.family == "LoRA, ddp on 4 GPUs"]
    assert row.seconds and not row.is_open, "no key asks for it, so that no help may name it"
    assert row.reason.endswith("; GPUs are used where they save 5%, and 2 GPUs are enough")
    text = plan_text(plan_document(plan))
    (line,) = [line for line in text.splitlines() if "LoRA, ddp on 4 GPUs" in line]
    assert duration(row.seconds) in line and "allocated per GPU  training time" in text


def test_what_does_not_fit_is_set_beside_what_is_usable(tmp_path: Path) -> None:
    found = stage(tmp_path, "full-fsdp")
    (ddp,) = [other for other in found.rejected if other.family == "full fine-tuning, ddp"]
    needs, usable = ddp.reason.split()[1], f"{found.usable_bytes / 2**30:,.1f}"
    assert f"ddp needs {needs} GiB, and {usable} GiB are usable" in found.decisions["strategy"].because


def test_strategies_that_leave_the_node_say_so(tmp_path: Path) -> None:
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "network_gbps": 10}
    found = stage(tmp_path, "full-fsdp", hardware=hardware)
    assert "across nodes takes" in found.decisions["strategy"].because


def test_idle_gpus_are_compared_with_more_of_them(tmp_path: Path) -> None:
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "network_gbps": 1}
    found = stage(tmp_path, "lora-ddp", hardware=hardware)
    assert found.layout.mesh.world_size == 8
    assert " on 16 takes " in found.decisions["world_size"].because


@pytest.mark.parametrize(("base", "noun"), [("dpo-full", "pairs"), ("kto", "answers"), ("qlora", "sequences")])
def test_a_batch_counts_what_the_method_counts(tmp_path: Path, base: str, noun: str) -> None:
    assert noun in stage(tmp_path, base).decisions["gradient_accumulation"].because


@pytest.mark.parametrize(
    ("strategy", "precision", "said"), [("zero2", "bf16", True), ("zero2", "fp32", False), ("fsdp", "bf16", False)]
)
def test_gradients_that_are_added_up_in_16_bits_are_said(
    tmp_path: Path, strategy: str, precision: str, said: bool
) -> None:
    keys = {"train__strategy": strategy, "train__precision": precision, "train__micro_batch_size": 1}
    decision = stage(tmp_path, "full-fsdp", model__name="Qwen/Qwen2.5-0.5B-Instruct", **keys).decisions[
        "gradient_accumulation"
    ]
    assert decision.value > 1
    assert ("added up in bf16" in decision.because) is said
