"""The search for the micro batch looks at its two ends before it looks between them, and keeps to a method's least."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, good, with_key
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.catalog.models import model
from recipec.estimate.memory import least_bytes, step_memory
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh
from recipec.planner.search import candidates
from recipec.planner.search.candidates import with_batch

GLOBAL_BATCH, RANKS = 64, 4
LARGEST_GPU = 300 << 30
WAYS = list(product(("single", "fsdp", "zero2"), ("full", "lora"), (True, False), ("sdpa", "eager")))


@pytest.mark.parametrize(("strategy", "adaptation", "checkpointing", "attention"), WAYS)
def test_no_size_between_the_ends_takes_less_than_both(strategy, adaptation, checkpointing, attention):
    found = model("Qwen/Qwen2.5-0.5B")
    assert found
    mesh = Mesh() if strategy == "single" else Mesh(shard=RANKS)
    plain = Layout(*(adaptation, "bf16", strategy, mesh, "none", 1, 1, checkpointing, attention, False, "adamw"))
    work = Workload(lora=LoraShape(16) if adaptation == "lora" else None, padded=True, sync_each_batch=True)
    share = GLOBAL_BATCH // mesh.data_parallel
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size <= share]
    peaks = [
        step_memory(found.architecture, with_batch(plain, size, GLOBAL_BATCH), work).peak_allocated_bytes
        for size in sizes
    ]
    assert min(peaks[1:-1]) >= min(peaks[0], peaks[-1])


@pytest.fixture
def pairs_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """DPO as if its loss compared the pairs of a micro batch."""
    row = replace(METHODS["dpo"], least_micro_batch=4, least_micro_batch_because="pairs are compared")
    monkeypatch.setitem(METHODS, "dpo", row)


@pytest.mark.usefixtures("pairs_of_pairs")
def test_no_rank_gets_less_than_the_method_can_learn_from(tmp_path: Path) -> None:
    """Sixteen pairs keep four of eight GPUs busy; the micro batch divides what a GPU gets."""
    recipe = with_key(with_key(BASES["dpo-full"], "hardware.gpus_per_node", 8), "train.global_batch_size", 16)
    found = compiled(tmp_path, recipe, only_plan=True)
    (stage,) = found.plan.stages
    assert stage.layout.mesh.world_size <= 4
    assert stage.layout.micro_batch >= 4
    assert "no pair for the other" in stage.decisions["world_size"].because
    assert "set `train.global_batch_size = 32`: ddp on 8 GPUs" in str(found.diagnostics)


@pytest.mark.usefixtures("pairs_of_pairs")
@pytest.mark.parametrize("key", ["train.micro_batch_size", "train.dpo.micro_batch_size", "train.global_batch_size"])
def test_a_smaller_batch_is_refused_by_name(tmp_path: Path, key: str) -> None:
    found = compiled(tmp_path, with_key(BASES["dpo-full"], key, 2))
    assert codes(found) == ["E0401"]
    assert found.diagnostics[0].title == f"`{key}` is too small for direct preference optimization"
    assert [label.message for label in found.diagnostics[0].labels] == ["dpo needs 4 or more", "pairs are compared"]
    over = with_key(with_key(BASES["dpo-full"], key, 2), "budget.max_hours", 0.001)
    assert codes(compiled(tmp_path, over)) == ["E0401", "E0403"], "what it takes without the key shows too"
    assert good(tmp_path, with_key(BASES["dpo-full"], key, 4)).plan.stages[0].layout.micro_batch == 4


def test_another_stage_may_have_a_smaller_batch(tmp_path: Path) -> None:
    row = replace(METHODS["dpo"], least_micro_batch=2, least_micro_batch_because="pairs are compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "dpo", row)
        assert good(tmp_path, with_key(BASES["sft-dpo"], "train.sft.micro_batch_size", 1))


def test_of_what_fits_with_no_micro_batch_only_the_smallest_is_measured(monkeypatch, tmp_path: Path) -> None:
    """Its weights alone are too large: a second size would not tell more, and an error looks at hundreds of layouts."""
    measured: list[Layout] = []

    def step(shape, layout, work):
        measured.extend([layout] if least_bytes(shape, layout, work) > LARGEST_GPU else [])
        return step_memory(shape, layout, work)

    monkeypatch.setattr(candidates, "step_memory", step)
    recipe = with_key(with_key(BASES["lora-ddp"], "model.name", "meta-llama/Llama-3.1-405B"), "hardware.gpu", "t4")
    assert "E0402" in codes(compiled(tmp_path, recipe, only_plan=True))
    assert measured and {layout.micro_batch for layout in measured} == {1}


def test_a_share_with_few_divisors_has_all_sizes_that_make_nearly_the_batch(tmp_path: Path) -> None:
    """11 rows for each of 6 ranks: 10 at once make 60 of 64, and leave room that 11 do not."""
    six = {
        "recipe": {"name": "six"},
        "goal": {"task": "instruct"},
        "model": {"name": "Qwen/Qwen3-30B-A3B"},
        "data": {"train": "chat.jsonl", "examples": 12_000, "tokens_per_example": 600},
        "hardware": {"gpu": "rtx-3090", "gpus_per_node": 6},
        "train": {"offload": "none", "global_batch_size": 64},
    }
    plan = compiled(tmp_path, six, only_plan=True).plan
    assert plan is not None
    layout = plan.stages[0].layout
    assert (layout.micro_batch, layout.accumulation, layout.mesh.data_parallel) == (10, 1, 6)


def test_a_stated_batch_is_hardly_exceeded(tmp_path: Path) -> None:
    """96 of 64 ranks would be 128 with two for each."""
    many = {
        "recipe": {"name": "many"},
        "goal": {"task": "instruct"},
        "model": {"name": "Qwen/Qwen2.5-3B-Instruct"},
        "data": {"train": "chat.jsonl", "examples": 200_000, "tokens_per_example": 600},
        "hardware": {"gpu": "h200", "gpus_per_node": 8, "nodes": 12, "network_gbps": 400},
        "train": {"adaptation": "lora", "global_batch_size": 96},
    }
    plan = compiled(tmp_path, many, only_plan=True).plan
    assert plan is not None and plan.stages[0].layout.global_batch == 96
