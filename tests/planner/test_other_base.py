"""A quantized base is named beside a plan where it is faster in less memory, and gives what is said of it."""

from __future__ import annotations

import re
from pathlib import Path

from compiling import BASES, Tables, compiled, with_key

from recipec.planner.plan import StagePlan
from recipec.units import duration, gib

NAMED = 'set `train.quantization = "nf4"`'


def recipe(vram_gib: int, **train: object) -> Tables:
    """Llama 3.2 3B on a card without a name; in 8 GiB LoRA finds room for one row at a time."""
    base = with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.2-3B-Instruct")
    base = with_key(with_key(base, "hardware", {"vram_gib": vram_gib}), "data.max_length", 512)
    return with_key(base, "train", train) if train else base


def stage(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[0]


def named(found: StagePlan) -> list[str]:
    return [line for line in found.options if line.startswith(NAMED)]


def test_the_base_that_is_faster_in_less_memory_is_named_with_what_it_gives(tmp_path: Path) -> None:
    now, then = (stage(tmp_path, recipe(8, **train)) for train in ({}, {"quantization": "nf4"}))
    assert now.layout.quantization == "none" and then.memory.peak_allocated_bytes < now.memory.peak_allocated_bytes
    (line,) = named(now)
    assert f"fits in {gib(then.memory.peak_allocated_bytes)} per GPU" in line
    ratio = re.search(r"takes (0\.\d+)x the time", line)
    assert ratio is not None and abs(float(ratio[1]) - then.seconds / now.seconds) < 0.01
    assert f"takes {duration(then.run_seconds)} instead of {duration(now.run_seconds)}" in line


def test_it_is_not_named_where_there_is_room_or_the_recipe_says_otherwise(tmp_path: Path) -> None:
    assert not named(stage(tmp_path, recipe(48)))
    assert not named(stage(tmp_path, recipe(8, quantization="none")))
