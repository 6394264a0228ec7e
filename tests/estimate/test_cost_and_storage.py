"""Money, disk, host memory, and what of a card may be used."""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_8B, layout
from msgspec.structs import replace

from recipec.axes.loops import ENGINE
from recipec.estimate.cost import run_cost
from recipec.estimate.device import ASSUMED
from recipec.estimate.memory import step_memory
from recipec.estimate.sizes import sizes
from recipec.estimate.storage import PROCESS_BYTES, export_bytes, host_memory, run_storage
from recipec.estimate.workload import LoraShape, Workload
from recipec.units import duration

FULL, LORA = Workload(), Workload(lora=LoraShape(16))
PACKED_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)  # of a weight: a nibble, its share of a scale, of the scale of scales
LINEAR_8B = LLAMA_8B.params - 2 * LLAMA_8B.vocab_size * LLAMA_8B.hidden_size - (2 * 32 + 1) * 4096  # without norms


def test_a_run_costs_its_gpu_hours():
    cost = run_cost(7200, 4, 1.5, "set in recipe.toml:3")
    assert cost.usd == pytest.approx(12)
    assert cost.because == "8.0 GPU hours of the whole run at $1.50 an hour (set in recipe.toml:3)"


def test_no_price_is_said_and_not_guessed():
    cost = run_cost(3600, 2, None, "no price is known")
    assert cost.usd is None
    assert cost.because == "2.0 GPU hours of the whole run; no price is known"


def test_one_gpu_works_as_long_as_the_run_takes():
    """270.4 s are 4 minutes where the time is rounded first; both must say so."""
    assert run_cost(270.4, 1, None, "").because.startswith(duration(round(270.4)).replace("min", "GPU minutes of"))


def test_an_adapter_checkpoint_is_small_and_a_full_one_is_not():
    adapter, full = export_bytes(LLAMA_8B, layout(), LORA), export_bytes(LLAMA_8B, layout("full"), FULL)
    assert adapter < 0.2 * GIB
    assert full == pytest.approx(2 * LLAMA_8B.params, rel=0.01)  # bf16, as it is served


def test_what_computes_in_another_type_than_bf16_is_saved_as_it_trained():
    for precision in ("fp32", "fp16"):
        full = export_bytes(LLAMA_8B, replace(layout("full"), precision=precision), FULL)
        assert full == pytest.approx(4 * LLAMA_8B.params, rel=0.01)


def test_disk_holds_the_kept_checkpoints_and_the_one_being_written():
    two, three = (run_storage(LLAMA_8B, layout("full"), FULL, keep, 10**6) for keep in (2, 3))
    assert three.checkpoints_bytes - two.checkpoints_bytes == two.checkpoint_bytes
    assert two.checkpoint_bytes == pytest.approx(12 * LLAMA_8B.params, rel=0.01)
    assert two.hub_cache_bytes == 2 * LLAMA_8B.params


def test_where_no_checkpoint_is_kept_the_save_that_is_tried_needs_most_room() -> None:
    """It has the weights as they train, in fp32, and the result has them in bf16."""
    none, two = (run_storage(LLAMA_8B, layout("full"), FULL, keep, 10**6) for keep in (0, 2))
    assert none.outputs_bytes == none.tried_bytes > 1.9 * none.export_bytes
    assert (two.trial_bytes, two.outputs_bytes) == (0, two.checkpoints_bytes + two.export_bytes)
    others = none.dataset_cache_bytes + none.hub_cache_bytes
    assert none.total_bytes == none.outputs_bytes + others


@pytest.mark.parametrize(("method", "copied"), [("kto", 16), ("dpo", 0), ("sft", 0)])
def test_each_rank_of_kto_writes_its_mismatched_answers_into_the_cache(method, copied):
    """TRL's filter before that map has another fingerprint on every rank, and thereby the map another file."""
    work = Workload(objective=method)
    one, eight = (run_storage(LLAMA_8B, layout(ranks=n, strategy="ddp"), work, 3, 10**6) for n in (1, 8))
    assert eight.dataset_cache_bytes - one.dataset_cache_bytes == 7 * copied * 10**6


@pytest.mark.parametrize(("strategy", "bytes_each"), [("zero1", 16), ("zero2", 16), ("zero3", 14)])
def test_deepspeed_writes_the_weights_twice_unless_it_shards_them(strategy, bytes_each):
    """As a Trainer on a CPU wrote them: model.safetensors, mp_rank_00_model_states.pt, and the states of all ranks."""
    found = run_storage(LLAMA_8B, layout("full", 1, 8, strategy), FULL, 3, 10**6).checkpoint_bytes
    assert found == pytest.approx(bytes_each * LLAMA_8B.params, rel=0.01)


@pytest.mark.parametrize(("strategy", "bytes_each"), [("zero1", 14), ("zero2", 14), ("zero3", 14)])
def test_a_loop_of_its_own_keeps_what_the_engine_writes(strategy, bytes_each):
    """As an engine with 2 M parameters wrote them on a CPU: 14.02 bytes each with ZeRO-2 and bf16."""
    work = replace(FULL, head=ENGINE.head)
    found = run_storage(LLAMA_8B, layout("full", 1, 8, strategy), work, 3, 10**6).checkpoint_bytes
    assert found == pytest.approx(bytes_each * LLAMA_8B.params, rel=0.01)


def test_every_rank_has_its_own_copy_of_weights_that_become_fp32():
    shape = layout("full", 1, 8, "fsdp")
    assert on_host(shape, FULL).needed_bytes == 8 * PROCESS_BYTES + 8 * 4 * LLAMA_8B.params


def test_what_is_not_downloaded_takes_no_disk():
    disk = run_storage(LLAMA_8B, layout("full"), FULL, 3, 10**6, downloaded_bytes=0)
    assert (disk.hub_cache_bytes, disk.total_bytes) == (0, disk.checkpoints_bytes + disk.export_bytes + 70_420_000)


def on_host(shape, work):
    return host_memory(LLAMA_8B, shape, work, 8, step_memory(LLAMA_8B, shape, work))


def test_offload_asks_for_host_memory():
    shape = layout("full", 1, 8, "zero3")
    plain, moved = (on_host(replace(shape, offload=offload), FULL) for offload in ("none", "cpu"))
    assert moved.needed_bytes > plain.needed_bytes + 100 * GIB
    assert "GiB offloaded" in moved.because


def test_several_ranks_keep_more_of_a_card_back():
    assert ASSUMED.allocatable_bytes(80, 8) < ASSUMED.allocatable_bytes(80, 1) < 80 * GIB
    assert ASSUMED.allocatable_bytes(0.1, 1) == 0


def test_an_export_has_the_tokenizer_beside_the_weights():
    adapters = sizes(LLAMA_8B, LORA.lora, to_vocabulary=True).adapters
    assert export_bytes(LLAMA_8B, layout(), LORA) > 4 * adapters
    assert export_bytes(LLAMA_8B, layout("full"), FULL) > 2 * LLAMA_8B.params


@pytest.mark.parametrize(
    ("shape", "copies"),
    [
        (layout(), 1),
        (layout("lora", 1, 8, "ddp"), 1),
        (layout("lora", 1, 8, "fsdp"), 1),
        (layout("lora", 1, 8, "zero3"), 1),
        (layout("qlora", 1, 8, "ddp"), 0),
        (layout("qlora", 1, 8, "fsdp"), 1),
    ],
    ids=lambda value: value.strategy if hasattr(value, "strategy") else str(value),
)
def test_who_reads_the_weights_into_host_memory(shape, copies):
    """Ranks share the pages of a file, in 16 bits or packed; a whole 4-bit base goes to the device tensor by tensor."""
    work = Workload(lora=LoraShape(16))
    ranks = shape.mesh.world_size
    found = on_host(shape, work)
    whole = 2 * LLAMA_8B.params
    read = whole - round((2 - PACKED_BYTES) * LINEAR_8B) if shape.adapts.quantized else whole
    assert found.needed_bytes == pytest.approx(ranks * PROCESS_BYTES + copies * read, abs=1)
    assert (f"{copies} x " in found.because) is bool(copies)


def test_a_packed_base_that_ranks_share_is_on_the_disk_too():
    shared, whole = (run_storage(LLAMA_8B, layout("qlora", 1, 8, name), LORA, 3, 10**6) for name in ("fsdp", "ddp"))
    assert shared.packed_bytes == pytest.approx(2 * LLAMA_8B.params - (2 - PACKED_BYTES) * LINEAR_8B, abs=1)
    assert whole.packed_bytes == 0
    assert shared.total_bytes == whole.total_bytes + shared.packed_bytes


@pytest.mark.parametrize(
    ("strategy", "objective", "precomputes", "copies"),
    [
        ("fsdp", "sft", False, 8),
        ("fsdp", "dpo", False, 16),
        ("fsdp", "kto", True, 16),  # TRL reads a reference even where it scores all rows before training
        ("ddp", "dpo", False, 8),  # the policy is on the device before the reference is read
        ("zero2", "dpo", False, 1),  # in 16 bits, whose pages both share
    ],
)
def test_a_reference_is_read_beside_a_policy_that_waits_in_host_memory(strategy, objective, precomputes, copies):
    shape = replace(layout("full", 1, 8, strategy), precomputes=precomputes)
    found = on_host(shape, Workload(objective=objective))
    each = 4 if strategy != "zero2" else 2
    assert found.needed_bytes == 8 * PROCESS_BYTES + copies * each * LLAMA_8B.params
    assert ("reference" in found.because) is (copies > 8)


def test_adapters_and_a_teacher_add_no_copy_in_host_memory():
    """An adapter is switched off for its reference; a teacher is read onto the device."""
    full, taught = layout("full", 1, 8, "fsdp"), Workload(objective="distill", teacher=LLAMA_8B)
    assert on_host(full, taught).needed_bytes == 8 * PROCESS_BYTES + 8 * 4 * LLAMA_8B.params
    shape, work = layout("lora", 1, 8, "fsdp"), Workload(objective="dpo", lora=LoraShape(16))
    assert on_host(shape, work).needed_bytes == 8 * PROCESS_BYTES + 2 * LLAMA_8B.params


def test_a_teacher_that_is_sharded_is_read_whole_by_the_first_rank():
    """All of its files are in one dictionary; the student's are gone by then."""
    student = Workload(objective="distill", lora=LoraShape(16), teacher=replace(LLAMA_8B, num_layers=64))
    shape = layout("lora", 1, 8, "zero3")
    found = on_host(shape, student)
    assert found.needed_bytes == 8 * PROCESS_BYTES + 2 * student.teacher.params
    assert "of the teacher's weights" in found.because
    small = replace(student, teacher=replace(LLAMA_8B, num_layers=8))
    assert on_host(shape, small).needed_bytes == 8 * PROCESS_BYTES + 2 * LLAMA_8B.params


def test_a_server_of_vllm_has_processes_beside_the_ranks():
    """With two GPUs of its own four: one answers requests, one schedules. Its weights go straight onto its GPUs."""
    alone = layout("lora", 1, 4, "ddp")
    beside = on_host(replace(alone, served_by=2), LORA)
    assert beside.needed_bytes == on_host(alone, LORA).needed_bytes + 4 * PROCESS_BYTES
    assert "4 processes of vLLM x 3 GiB" in beside.because
