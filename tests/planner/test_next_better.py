"""What the next better option is said to take is enough, and is what the next smaller step is not."""

from __future__ import annotations

import json
import re
from math import ceil, floor
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.cli.plan import plan_text
from recipec.estimate.storage import HostMemory
from recipec.layout import Layout
from recipec.planner.document import plan_document
from recipec.planner.plan import NextBetter, StagePlan
from recipec.planner.search import candidates
from recipec.units import duration, enough_gib

PRESENT = "Qwen/Qwen3-8B", 79, 2  # which hold all weights with 8-bit optimizer states
UP = {"lora": "full", "qlora": "lora"}


def recipe(model: str, vram_gib: float, gpus: int = 1, **train: object) -> Tables:
    base = with_key(with_key(BASES["lora-single"], "model.name", model), "data.max_length", 1024)
    hardware = {"vram_gib": vram_gib, "gpus_per_node": gpus, "gpu_link": "nvlink"}
    return with_key(with_key(base, "hardware", hardware), "train", {"global_batch_size": 32, **train})


def stage(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan
    return plan.stages[0]


def better(folder: Path, tables: Tables) -> NextBetter:
    found = stage(folder, tables).next_better
    assert found
    return found


CASES = [("Qwen/Qwen3-8B", 12), ("Qwen/Qwen3-14B", 24), ("Qwen/Qwen3-8B", 48), ("Qwen/Qwen3-32B", 80)]


@pytest.mark.parametrize(("model", "vram_gib"), CASES)
def test_the_memory_that_it_names_is_enough_and_needed(tmp_path: Path, model: str, vram_gib: int) -> None:
    chosen = stage(tmp_path, recipe(model, vram_gib)).layout
    up = UP["qlora" if chosen.quantization == "nf4" else "lora"]
    needs = better(tmp_path, recipe(model, vram_gib)).needs_gib
    fixed = {"adaptation": up, "quantization": "none", "offload": "none", "activation_offload": False}
    enough, short = (compiled(tmp_path, recipe(model, needs + extra, **fixed), only_plan=True) for extra in (0.1, -0.1))
    assert enough.plan is not None
    assert short.plan is None or short.plan.stages[0].decisions["lora_dropout"].value == 0, "it gives up its dropout"
    assert floor(needs) >= vram_gib or ceil(needs) > vram_gib


@pytest.mark.parametrize(("model", "vram_gib"), [*CASES[:3], ("Qwen/Qwen3-8B", 24)])
def test_the_gpus_that_it_names_are_enough(tmp_path: Path, model: str, vram_gib: int) -> None:
    found = better(tmp_path, recipe(model, vram_gib))
    assert found.change is not None and re.fullmatch(r"`hardware.gpus_per_node = \d`", found.change)
    count = int(found.change.rpartition(" ")[2][:-1])
    up = "full" if found.family.startswith("full") else "lora"
    enough = compiled(tmp_path, recipe(model, vram_gib, count, adaptation=up, quantization="none"), only_plan=True)
    assert enough.plan is not None
    on_gpus = {"offload": "none", "activation_offload": False}
    half = recipe(model, vram_gib, count // 2, adaptation=up, quantization="none", **on_gpus)
    assert compiled(tmp_path, half, only_plan=True).plan is None


def test_nothing_is_above_full_fine_tuning_or_a_wish(tmp_path: Path) -> None:
    assert stage(tmp_path, recipe("Qwen/Qwen2.5-0.5B", 80, adaptation="full")).next_better is None
    assert stage(tmp_path, recipe("Qwen/Qwen3-8B", 24, adaptation="lora")).next_better is None


def test_what_fits_already_is_not_said_to_take_more(tmp_path: Path) -> None:
    """QLoRA comes first where memory does, though LoRA fits on the same GPU."""
    tables = recipe("Qwen/Qwen3-8B", 80)
    first = stage(tmp_path, with_key(tables, "goal.priority", "memory"))
    assert first.layout.adaptation == "qlora" and stage(tmp_path, tables).layout.adaptation == "lora"
    assert first.next_better is None


def test_a_fixed_micro_batch_is_part_of_what_it_takes(tmp_path: Path) -> None:
    free, fixed = (better(tmp_path, recipe("Qwen/Qwen3-8B", 48, **train)) for train in ({}, {"micro_batch_size": 8}))
    assert fixed.family == free.family and fixed.needs_gib > free.needs_gib + 1


def test_what_is_offloaded_would_rather_stay(tmp_path: Path) -> None:
    tables = with_key(recipe("Qwen/Qwen3-8B", 24, 4, adaptation="full"), "hardware.host_memory_gib", 512)
    assert stage(tmp_path, tables).layout.offloads
    found = better(tmp_path, tables)
    assert found.family.startswith("full fine-tuning") and found.needs_gib > 24


def test_the_same_training_without_cpu_memory_is_called_that(tmp_path: Path) -> None:
    wanted = recipe("Qwen/Qwen3-8B", 24, 4, adaptation="full", quantization="none")
    wanted = with_key(wanted, "hardware.host_memory_gib", 512)
    chosen = stage(tmp_path, wanted).layout
    assert not chosen.on_device
    assert better(tmp_path, wanted).what.startswith("nothing in host memory")


def test_what_fits_with_host_memory_is_said_to_leave_it(tmp_path: Path) -> None:
    """Full fine-tuning with offload stands among the alternatives, so it is not said to need more memory by itself."""
    tables = with_key(recipe("Qwen/Qwen3-8B", 24, 4), "hardware.host_memory_gib", 512)
    found = stage(tmp_path, tables)
    hosted = [other for other in found.rejected if other.family.startswith("full fine-tuning")]
    assert hosted and hosted[0].seconds is not None and hosted[0].layout.offloads and found.next_better
    assert found.next_better.what.startswith("full fine-tuning with nothing in host memory")
    assert better(tmp_path, recipe("Qwen/Qwen3-14B", 24)).what == "LoRA"


def test_the_present_gpus_come_before_more_of_them(tmp_path: Path) -> None:
    """Full fine-tuning fits with 8-bit states, which the rules take only where nothing fits without."""
    tables = recipe(*PRESENT)
    found = stage(tmp_path, tables)
    assert found.layout.adaptation == "lora" and found.next_better is None
    keys = '`train.adaptation = "full"` and `train.optimizer = "adamw-8bit"`'
    assert any(line.startswith(f"set {keys}: full fine-tuning, zero3") for line in found.options)
    taken = stage(tmp_path, with_key(tables, "train", {"adaptation": "full", "optimizer": "adamw-8bit"}))
    assert taken.layout.on_device and taken.layout.optimizer == "adamw-8bit"
    assert better(tmp_path, recipe("Qwen/Qwen3-8B", 48, 2)).change


@pytest.mark.parametrize("examples", [5_000, 200_000])
def test_the_plan_on_the_named_gpus_trains_what_is_said(tmp_path: Path, examples: int) -> None:
    """Of many examples the rules train all weights first, and adapters all the same where that is far slower."""
    tables = with_key(with_key(BASES["lora-single"], "hardware", {"gpu": "h100"}), "data.examples", examples)
    found = better(tmp_path, tables)
    assert found.what.startswith("full fine-tuning") and found.change
    for key, value in re.findall(r"`([\w.]+) = ([^`]+)`", found.change + found.asks):
        tables = with_key(tables, key, json.loads(value))
    then = stage(tmp_path, tables).layout
    assert then.adapts.trains_all and then.on_device


def test_a_need_has_one_figure_wherever_it_is_told(tmp_path: Path) -> None:
    """Rounded up: memory of 34.4 GiB would not hold 34.43."""
    found = compiled(tmp_path, BASES["qlora"], only_plan=True).plan
    assert found
    told = f"LoRA needs {enough_gib(found.stages[0].next_better.needs_gib)} per GPU"
    assert told in found.stages[0].decisions["adaptation"].because
    assert told in plan_text(plan_document(found))


def on_present(folder: Path, tables: Tables) -> list[str]:
    return [line for line in stage(folder, tables).options if "with nothing in host memory, and an example" in line]


def test_more_training_on_the_present_gpus_is_told_with_its_whole_run(tmp_path: Path) -> None:
    now = stage(tmp_path, recipe(*PRESENT))
    (line,) = on_present(tmp_path, recipe(*PRESENT))
    then = stage(tmp_path, recipe(*PRESENT, adaptation="full", optimizer="adamw-8bit"))
    assert line.endswith(f"; the whole run takes {duration(then.run_seconds)} instead of {duration(now.run_seconds)}")


def test_more_training_that_may_find_too_little_host_memory_is_not_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = candidates.host_memory

    def with_8_bits(shape: Architecture, layout: Layout, *given: Any) -> HostMemory:
        needed = usual(shape, layout, *given)
        return replace(needed, needed_bytes=2**50) if layout.optimizer == "adamw-8bit" else needed

    monkeypatch.setattr(candidates, "host_memory", with_8_bits)
    hosted = with_key(recipe(*PRESENT), "hardware.host_memory_gib", 512)
    assert not on_present(tmp_path, hosted)
