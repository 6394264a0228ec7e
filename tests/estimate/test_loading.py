"""Host memory while weights are read: experts that transformers makes new tensors of are every rank's own."""

from __future__ import annotations

import pytest
from estimate_shapes import layout
from msgspec.structs import replace

from recipec.catalog.models import model
from recipec.estimate.device import GIB
from recipec.estimate.experts import converted_bytes, published_bytes, working_bytes
from recipec.estimate.loading import first_reads, loading
from recipec.estimate.memory import step_memory
from recipec.estimate.storage import PROCESS_BYTES, host_memory, merged_bytes
from recipec.estimate.workload import LoraShape, Workload

WORK = Workload(lora=LoraShape(16))
QWEN, OSS, LLAMA4 = "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b", "meta-llama/Llama-4-Scout-17B-16E"


def shape_of(name):
    found = model(name)
    assert found is not None
    return found.architecture


@pytest.mark.parametrize(
    ("name", "strategy", "ranks", "copies"),
    [
        (QWEN, "ddp", 8, 8),
        (QWEN, "fsdp", 8, 8),
        (QWEN, "zero3", 8, 0),  # the first rank alone reads values, and fuses one tensor at a time
        (QWEN, "single", 1, 0),  # straight onto the GPU
        (OSS, "fsdp", 8, 8),
        (OSS, "zero3", 8, 8),  # a checkpoint that counts as quantized is read as without ZeRO-3
        (LLAMA4, "fsdp", 8, 0),  # whose file holds them fused
        ("zai-org/GLM-4.5-Air", "fsdp", 8, 8),
        ("mistralai/Mixtral-8x7B-v0.1", "ddp", 2, 2),
    ],
)
def test_experts_that_are_converted_are_every_ranks_own(name, strategy, ranks, copies):
    shape = shape_of(name)
    found = loading(shape, layout("lora", 1, ranks, strategy), WORK, ranks)
    assert (found.copies, found.shared_bytes + (copies > 0) * converted_bytes(shape)) == (copies, 2 * shape.params)
    assert found.peak_bytes == found.shared_bytes + copies * (converted_bytes(shape) + working_bytes(shape))
    assert (f" and {copies} x " in found.because and "of experts while" in found.because) is bool(copies)


@pytest.mark.parametrize("strategy", ["fsdp", "zero3"])
def test_what_a_run_saved_of_experts_in_4_bits_is_read_as_it_is(strategy):
    found = loading(shape_of(OSS), layout("lora", 1, 8, strategy), replace(WORK, published=False), 8)
    assert (found.shared_bytes, found.copies) == (2 * shape_of(OSS).params, 0)


def test_experts_that_were_published_one_by_one_are_saved_and_read_so():
    each, plan = shape_of(QWEN), layout("lora", 1, 8, "fsdp")
    saved, published = (loading(each, plan, replace(WORK, published=value), 8) for value in (False, True))
    assert saved == published and saved.copies == 8


def test_a_node_holds_all_copies_of_the_experts():
    """GLM-4.5-Air on eight GPUs: 186 GiB of experts each, and not 199 GiB of weights once."""
    shape, plan = shape_of("zai-org/GLM-4.5-Air"), layout("lora", 1, 8, "fsdp")
    needed = host_memory(shape, plan, WORK, 8, step_memory(shape, plan, WORK)).needed_bytes
    assert needed - 8 * PROCESS_BYTES == pytest.approx((13.4 + 8 * 188.4) * GIB, rel=0.001)


@pytest.mark.parametrize(
    ("name", "adaptation", "strategy", "loads", "copies"),
    [
        ("Qwen/Qwen3-8B", "full", "fsdp", True, 1),  # in fp32
        ("Qwen/Qwen3-8B", "full", "hsdp", True, 1),
        ("Qwen/Qwen3-8B", "full", "fsdp", False, 8),
        ("Qwen/Qwen3-8B", "full", "ddp", True, 8),  # a rank that has not read its weights has none
        ("Qwen/Qwen3-8B", "lora", "fsdp", True, 0),  # pages of the file
        (QWEN, "lora", "fsdp", True, 1),  # experts that are fused
        (OSS, "lora", "fsdp", True, 8),
    ],
)
def test_under_fsdp_one_rank_reads_what_every_rank_would_hold(name, adaptation, strategy, loads, copies):
    work = Workload(lora=LoraShape(16) if adaptation == "lora" else None, loads_itself=loads)
    shape, plan = shape_of(name), layout(adaptation, 1, 8, strategy)
    found = loading(shape, plan, work, 8)
    assert found.copies == copies
    assert first_reads(shape, plan, work, 8) is (copies == 1)


def test_what_is_read_as_fp32_is_no_page_of_a_file():
    shape = shape_of(QWEN)
    found = loading(shape, layout("full", 1, 8, "fsdp"), Workload(), 8)
    assert (found.shared_bytes, found.own_bytes, found.copies) == (0, 4 * shape.params, 8)


@pytest.mark.parametrize(("precision", "bytes_each", "copies"), [("bf16", 2, 0), ("fp16", 2, 8), ("fp32", 4, 8)])
def test_a_base_that_is_read_in_another_type_than_published_is_every_ranks_own(precision, bytes_each, copies):
    shape, plan = shape_of("Qwen/Qwen3-8B"), replace(layout("lora", 1, 8, "ddp"), precision=precision)
    found = loading(shape, plan, WORK, 8)
    assert found.copies == copies and found.shared_bytes + found.own_bytes == bytes_each * shape.params
    assert merged_bytes(shape, plan) == bytes_each * shape.params


@pytest.mark.parametrize(("name", "gb"), [(OSS, 13.8), ("openai/gpt-oss-120b", 65.2), (QWEN, 61.1)])
def test_the_files_have_the_size_that_the_hub_shows(name, gb):
    assert published_bytes(shape_of(name)) / 1e9 == pytest.approx(gb, abs=0.06)
