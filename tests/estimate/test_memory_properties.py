"""What holds for every layout."""

from __future__ import annotations

import pytest
from estimate_shapes import LLAMA_8B, QWEN_HALF_B, layout
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from recipec.axes import STRATEGIES
from recipec.catalog.architecture import Experts
from recipec.estimate.memory import largest_that_fits, least_bytes, step_memory
from recipec.estimate.optimizers import STATES as OPTIMIZERS
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Mesh

MIXTRAL = replace(LLAMA_8B, model_type="mixtral", moe=Experts(8, 2, 14336, "MixtralSparseMoeBlock"))
MOMENTS = {
    "forward",
    "load",
    "forward_end",
    "loss",
    "layer_backward",
    "end_of_backward",
    "optimizer_step",
    "evaluation",
    "save",
}


ARCHITECTURES = st.sampled_from([LLAMA_8B, QWEN_HALF_B, MIXTRAL])


@st.composite
def runs(draw):
    """Any architecture, layout and work that go together."""
    strategy = draw(st.sampled_from(["single", "ddp", "fsdp", "zero2", "zero3"]))
    adaptation = draw(st.sampled_from(["full", "lora"]))
    quantizes = strategy not in ("zero2", "zero3")
    shape = layout(
        "qlora" if adaptation == "lora" and quantizes and draw(st.booleans()) else adaptation,
        draw(st.integers(1, 16)),
        1 if strategy == "single" else draw(st.sampled_from([2, 8])),
        strategy,
        checkpointing=draw(st.booleans()),
        recompute_every=draw(st.integers(1, 5)),
        activation_offload=draw(st.booleans()),
        accumulation=draw(st.sampled_from([1, 4])),
        offload=draw(st.sampled_from(["none", *STRATEGIES[strategy].offloads])),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        precision=draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        attention=draw(st.sampled_from(["sdpa", "eager", "flash_attention_2"])),
    )
    lora = None if adaptation == "full" else LoraShape(draw(st.sampled_from([8, 64])), dropout=draw(st.booleans()))
    objective = draw(st.sampled_from(["sft", "dpo", "continue-pretrain", "pretrain", "kto", "reward", "distill"]))
    work = Workload(
        objective=objective,
        teacher=LLAMA_8B if objective == "distill" else None,
        seq_len_tokens=draw(st.sampled_from([128, 2048, 8192])),
        lora=lora,
        head=draw(st.sampled_from(["", "hf"])),
        padded=draw(st.booleans()),
    )
    return draw(ARCHITECTURES), shape, work


@settings(max_examples=150, deadline=None)
@given(runs())
def test_the_terms_sum_to_the_peak_and_the_peak_is_the_largest_stage(run):
    estimate = step_memory(*run)
    assert sum(estimate.terms.values()) == estimate.peak_allocated_bytes
    assert estimate.peak_allocated_bytes == pytest.approx(max(estimate.moments.values()), abs=16)
    assert set(estimate.moments) - {"policy", "reference", "teacher"} == MOMENTS
    assert all(size >= 0 for size in (*estimate.terms.values(), *estimate.moments.values()))
    assert estimate.peak_allocated_bytes <= estimate.peak_reserved_bytes <= estimate.peak_device_bytes


@settings(max_examples=150, deadline=None)
@given(runs())
def test_more_of_anything_never_takes_less(run):
    architecture, shape, work = run
    peak = step_memory(architecture, shape, work).peak_allocated_bytes
    larger = replace(shape, micro_batch=shape.micro_batch + 1)
    longer = replace(work, seq_len_tokens=2 * work.seq_len_tokens)
    assert step_memory(architecture, larger, work).peak_allocated_bytes >= peak
    assert step_memory(architecture, shape, longer).peak_allocated_bytes >= peak
    if work.lora:
        wider = replace(work, lora=replace(work.lora, rank=2 * work.lora.rank))
        assert step_memory(architecture, shape, wider).peak_allocated_bytes >= peak


@settings(max_examples=100, deadline=None)
@given(runs(), st.integers(1, 200))
def test_the_largest_micro_batch_fits_and_the_next_does_not(run, limit_gib):
    architecture, shape, work = run
    limit = limit_gib << 30
    batches = [replace(shape, micro_batch=size) for size in range(1, 257)]
    chosen, memory = largest_that_fits(architecture, batches, work, limit)
    following = step_memory(architecture, replace(chosen, micro_batch=chosen.micro_batch + 1), work)
    assert chosen.micro_batch == 1 or memory.peak_allocated_bytes <= limit
    assert chosen.micro_batch == 256 or following.peak_allocated_bytes > limit


@pytest.mark.parametrize("strategy", ["fsdp", "zero2", "zero3"])
def test_more_ranks_never_take_more(strategy):
    peaks = [
        step_memory(
            LLAMA_8B, replace(layout("full", 1, 2, strategy), mesh=Mesh(shard=ranks)), Workload()
        ).peak_allocated_bytes
        for ranks in (2, 4, 8, 64)
    ]
    assert peaks == sorted(peaks, reverse=True)


def test_checkpointing_saves_memory_and_costs_none():
    kept = step_memory(LLAMA_8B, layout(batch=4, checkpointing=False), Workload(lora=LoraShape(16)))
    recomputed = step_memory(LLAMA_8B, layout(batch=4), Workload(lora=LoraShape(16)))
    assert recomputed.peak_allocated_bytes < kept.peak_allocated_bytes / 2


def test_what_every_nth_layer_keeps_lies_between_all_and_nothing():
    kept = layout("full", 4, checkpointing=False)
    shapes = [*(layout("full", 4, recompute_every=every) for every in (1, 2, 3, 8)), kept]
    peaks = [step_memory(LLAMA_8B, shape, Workload()).peak_allocated_bytes for shape in shapes]
    assert peaks == sorted(peaks)
    assert step_memory(LLAMA_8B, replace(kept, recompute_every=8), Workload()).peak_allocated_bytes == peaks[-1]


def test_inputs_on_the_host_take_blocks_of_powers_of_two():
    """One input of a layer is 3 x 4096 tokens x 4096 features in bf16: 96 MiB, pinned as 128."""
    work = Workload(lora=LoraShape(16), seq_len_tokens=4096)
    here, there = (step_memory(LLAMA_8B, layout(batch=3, activation_offload=host), work) for host in (False, True))
    assert (here.host_bytes, there.host_bytes) == (0, 32 * 128 << 20)
    assert here.moments["forward"] - there.moments["forward"] == 31 * 96 << 20  # one layer is running


def test_all_experts_are_resident_and_only_the_chosen_compute():
    dense, sparse = (step_memory(model, layout(), Workload(lora=LoraShape(16))) for model in (LLAMA_8B, MIXTRAL))
    assert sparse.terms["weights"] == 2 * MIXTRAL.params
    assert sparse.terms["working_set"] < 4 * dense.terms["working_set"]


def test_ddp_keeps_a_second_copy_of_the_gradients():
    alone, together = (
        step_memory(QWEN_HALF_B, layout("full", 1, n, s), Workload()) for n, s in ((1, "single"), (2, "ddp"))
    )
    extra = together.moments["optimizer_step"] - alone.moments["optimizer_step"]
    assert extra == pytest.approx(4 * QWEN_HALF_B.params)


def test_fsdp_accumulation_keeps_whole_gradients_unless_each_batch_is_reduced():
    shape = layout("full", 1, 8, "fsdp", accumulation=4)
    kept, reduced = (
        step_memory(LLAMA_8B, shape, Workload(sync_each_batch=each)).moments["loss"] for each in (False, True)
    )
    assert kept - reduced == pytest.approx(2 * LLAMA_8B.params - 4 * LLAMA_8B.params / 8)


def test_offload_moves_state_to_the_host():
    shape = layout("full", 1, 8, "zero3")
    on_gpu, on_host = (step_memory(LLAMA_8B, replace(shape, offload=where), Workload()) for where in ("none", "cpu"))
    assert on_host.peak_allocated_bytes < on_gpu.peak_allocated_bytes / 2
    assert on_host.host_bytes > 16 * LLAMA_8B.params / 8 > on_gpu.host_bytes == 0


@given(runs())
@settings(max_examples=60, deadline=None)
def test_no_micro_batch_takes_less_than_what_is_held_at_all_times(run):
    shape, each, work = run
    for micro_batch, accumulation in ((1, 1), (1, 8), (8, 1)):
        sized = replace(each, micro_batch=micro_batch, accumulation=accumulation)
        assert step_memory(shape, sized, work).peak_allocated_bytes >= least_bytes(shape, sized, work) - 20, "rounded"
