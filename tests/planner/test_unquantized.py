"""An adapter that asks for its base as it is: what the plan with a quantized base says of that is what it gets."""

from __future__ import annotations

import json
from pathlib import Path

from compiling import BASES, Tables, compiled, with_key

from recipec.cli.plan import plan_text
from recipec.diagnostics.model import Diagnostic
from recipec.units import duration, gib


def recipe(length: int, **train: object) -> Tables:
    """A recipe of one H100."""
    base = with_key(BASES["lora-single"], "model.name", "mistralai/Mistral-Small-24B-Instruct-2501")
    base = with_key(with_key(base, "hardware", {"gpu": "h100"}), "data.max_length", length)
    return with_key(base, "train", {"adaptation": "lora", **train})


LONG, SHORT = recipe(32768), with_key(recipe(2048), "hardware", {"vram_gib": 24})


def told(folder: Path, tables: Tables) -> Diagnostic:
    (found,) = [each for each in compiled(folder, tables).diagnostics if each.code == "W0536"]
    return found


def test_it_fits_with_data_in_host_memory_and_the_time_that_it_says(tmp_path: Path) -> None:
    said, plan = told(tmp_path, LONG), compiled(tmp_path, LONG).plan
    refusing = compiled(tmp_path, recipe(32768, quantization="none")).plan
    assert plan is not None and refusing is not None
    (stage,) = refusing.stages
    assert stage.layout.activation_offload and stage.decisions["lora_dropout"].value == 0
    assert said.labels[0].message == "LoRA fits only with data in host memory, so QLoRA is used"
    peak = gib(stage.memory.peak_allocated_bytes)
    assert f"with activations in host memory then fits in {peak} per GPU" in said.help[1]
    assert ", without dropout; " in said.help[1]
    assert f"takes {duration(refusing.seconds)} instead of {duration(plan.seconds)}" in said.help[1]


def test_the_memory_that_more_hardware_needs_is_that_of_the_gpus_alone(tmp_path: Path) -> None:
    plan = compiled(tmp_path, recipe(40_960)).plan
    assert plan is not None and not plan.stages[0].layout.activation_offload
    assert plan.stages[0].next_better is not None
    assert plan.stages[0].next_better.what == "LoRA with nothing in host memory"


def test_what_fits_nowhere_is_an_error_that_names_what_would(tmp_path: Path) -> None:
    said = told(tmp_path, SHORT)
    assert said.help[1].endswith("the error names what would fit") and "needs" in said.labels[0].message
    plan = compiled(tmp_path, SHORT).plan
    assert plan is not None and plan.stages[0].next_better is not None
    assert plan.stages[0].next_better.what == "LoRA"
    with_none = with_key(SHORT, "train.quantization", "none")
    assert compiled(tmp_path, with_none).plan is None


def test_an_adapter_that_goes_without_dropout_for_memory_says_so(tmp_path: Path) -> None:
    without, with_it = (
        plan_text(json.loads(compiled(tmp_path, tables).plan_json))
        for tables in (recipe(32768, quantization="none"), recipe(2048, quantization="none"))
    )
    line = "  dropout  0; with 0.05 nothing fits: each adapted input then has a mask and a copy\n"
    assert line in without
    assert "  dropout" not in with_it
