"""Examples that share a row: what the planner makes of it, what it costs, and what the bundle then has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key

from recipec.planner.plan import StagePlan

SHORT = with_key(with_key(BASES["lora-single"], "data.tokens_per_example", 60), "data.max_length", 1024)
NODE = {"gpu": "h200", "gpus_per_node": 8}
GRANITE = with_key(SHORT, "model.name", "ibm-granite/granite-4.0-1b")


def recipe(base: dict[str, Any], **keys: Any) -> dict[str, Any]:
    for key, value in keys.items():
        base = with_key(base, f"train.{key.replace('__', '.')}", value)
    return base


def stage(folder: Path, tables: dict[str, Any], which: int = -1) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan
    return plan.stages[which]


def test_nothing_is_packed_unasked(tmp_path: Path) -> None:
    found = stage(tmp_path, SHORT)
    assert (found.layout.attention, found.layout.packing) == ("sdpa", False)
    assert "dense mask" in found.decisions["packing"].because


def test_a_mask_over_packed_examples_is_planned_for_one_row(tmp_path: Path) -> None:
    done = compiled(tmp_path, recipe(SHORT, packing=True), only_plan=True)
    assert "W0504" not in codes(done) and done.plan
    assert done.plan.stages[0].layout.micro_batch == 1
    assert done.plan.stages[0].decisions["packing_strategy"].value == "bfd"


def test_packed_text_keeps_its_micro_batch(tmp_path: Path) -> None:
    assert stage(tmp_path, BASES["text"]).layout.micro_batch > 1


def test_the_kernel_packs_and_is_faster_than_a_mask(tmp_path: Path) -> None:
    masked, kernel = (
        stage(tmp_path, recipe(SHORT, **keys)) for keys in ({"packing": True}, {"attention": "torch_varlen"})
    )
    assert kernel.layout.packing and kernel.decisions["packing_strategy"].value == "bfd"
    assert kernel.layout.micro_batch > 1
    assert kernel.time.seconds_per_step < masked.time.seconds_per_step


def test_packing_keeps_about_the_examples_of_a_step(tmp_path: Path) -> None:
    assert stage(tmp_path, SHORT).layout.global_batch == 32
    packed = stage(tmp_path, recipe(SHORT, attention="torch_varlen"))
    assert packed.layout.global_batch == 2  # of 1,024 tokens each: 17 examples
    long = with_key(SHORT, "data.tokens_per_example", 1024)
    assert stage(tmp_path, recipe(long, attention="torch_varlen")).layout.global_batch == 32


def test_only_the_kernel_packs_a_model_that_leaks(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, recipe(GRANITE, packing=True))) == ["E0405"]
    assert stage(tmp_path, recipe(GRANITE, attention="torch_varlen")).layout.packing


def test_rows_of_llama_4_are_packed_below_the_place_from_which_it_scales(tmp_path: Path) -> None:
    scout = with_key(with_key(SHORT, "model.name", "meta-llama/Llama-4-Scout-17B-16E-Instruct"), "hardware", NODE)
    long = with_key(scout, "data.max_length", 16_384)
    assert codes(compiled(tmp_path, recipe(long, packing=True), only_plan=True)) == ["E0405"]
    assert stage(tmp_path, recipe(scout, packing=True)).layout.packing
    assert codes(compiled(tmp_path, recipe(long, attention="torch_varlen"), only_plan=True)) == ["E0405"]
    packed = stage(tmp_path, recipe(scout, attention="torch_varlen")).layout
    assert packed.micro_batch * 1024 < 8192


def test_the_search_keeps_packed_rows_of_llama_4_below_that_place(tmp_path: Path) -> None:
    """Eight rows of a rank's sixteen would reach it, and the plan was then refused for a batch of its own choice."""
    scout = with_key(
        with_key(SHORT, "model.name", "meta-llama/Llama-4-Scout-17B-16E-Instruct"), "data.max_length", 1024
    )
    scout = with_key(scout, "hardware", {"gpu": "b200", "gpus_per_node": 8})
    layout = stage(tmp_path, recipe(scout, attention="torch_varlen", adaptation="lora", global_batch_size=128)).layout
    assert layout.micro_batch == 4 and layout.accumulation == 4


def test_a_stage_may_have_an_attention_of_its_own(tmp_path: Path) -> None:
    two = with_key(BASES["sft-dpo"], "train.sft", {"attention": "torch_varlen"})
    bundle = texts(good(tmp_path, two))
    assert 'attn_implementation": "torch_varlen"' in bundle["stages/1-sft/train.py"]
    assert 'attn_implementation": "sdpa"' in bundle["stages/2-dpo/train.py"]
    assert "stages/1-sft/packed_attention.py" in bundle and "stages/2-dpo/packed_attention.py" not in bundle
    refused = compiled(tmp_path, with_key(BASES["sft-dpo"], "train.attention", "torch_varlen"))
    assert codes(refused) == ["E0405"]


@pytest.mark.parametrize("attention", ["sdpa", "torch_varlen"])
def test_a_bundle_that_packs_examples_shows_that_they_are_apart(tmp_path: Path, attention: str) -> None:
    bundle = texts(good(tmp_path, recipe(SHORT, attention=attention, packing=True)))
    assert "check_apart(self.trainer)" in bundle["preflight.py"]
    assert f'"attention": "{attention}"' in bundle["preflight.py"]
    assert ("packed_attention.py" in bundle) is (attention == "torch_varlen")
    assert ("register_varlen()" in bundle["train.py"]) is (attention == "torch_varlen")
    assert 'attn_implementation="sdpa"' in bundle["evaluate.py"]  # whose rows are padded


@pytest.mark.parametrize("base", ["lora-single", "text", "dpo-full"])
def test_a_bundle_that_packs_no_examples_has_no_such_check(tmp_path: Path, base: str) -> None:
    bundle = texts(good(tmp_path, BASES[base]))
    assert "check_apart" not in bundle["preflight.py"] and "packed_attention.py" not in bundle


EIGHT = {
    "model.name": "Qwen/Qwen2.5-7B",
    "data.template": "chatml",
    "data.max_length": 8192,
    "data.tokens_per_example": 100,
    "data.examples": 2000,
    "hardware.gpu": "a100-80gb",
    "hardware.gpus_per_node": 8,
    "train.adaptation": "full",
    "train.packing": True,
}


def on_eight(**keys: Any) -> dict[str, Any]:
    """Short rows in long sequences, for eight GPUs: the examples of a step fill one sequence."""
    base = BASES["lora-single"]
    for key, value in EIGHT.items():
        base = with_key(base, key, value)
    return recipe(base, **keys)


def test_packed_rows_leave_a_sequence_for_every_gpu_where_fewer_do_not_fit(tmp_path: Path) -> None:
    for keys in ({}, {"strategy": "zero3", "micro_batch_size": 1}):
        found = stage(tmp_path, on_eight(**keys))
        batch = found.decisions["global_batch_size"]
        assert (found.layout.global_batch, found.layout.mesh.world_size) == (8, 8)
        assert "no layout that trains this fits" in batch.because and batch.accepts == (8, 8)


def test_what_recipec_accepts_of_a_packed_batch_can_be_planned(tmp_path: Path) -> None:
    batch = stage(tmp_path, on_eight(strategy="zero3", global_batch_size=16)).decisions["global_batch_size"]
    assert batch.dissent.startswith("usual value: 8 alone: raised from 1")


def test_a_batch_with_fewer_examples_than_gpus_is_named_as_the_cause(tmp_path: Path) -> None:
    for strategy, code in (({"strategy": "zero3", "micro_batch_size": 1}, "E0405"), ({}, "E0402")):
        done = compiled(tmp_path, on_eight(**strategy, global_batch_size=1), only_plan=True)
        (error,) = [finding for finding in done.diagnostics if finding.code.startswith("E")]
        assert error.code == code
        assert any(line.startswith("set `train.global_batch_size = 8`: full fine-tuning") for line in error.help)
        assert code == "E0402" or error.notes[0].startswith("the global batch has 1 sequence, and all 8 GPUs")
        text = " ".join((*error.help, *error.notes))
        assert "must divide" not in text
