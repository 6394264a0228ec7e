"""The search for the micro batch looks at its two ends before it looks between them."""

from __future__ import annotations

from itertools import product

import pytest

from recipec.catalog.models import model
from recipec.estimate.memory import step_memory
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh
from recipec.planner.search.candidates import with_batch

GLOBAL_BATCH, RANKS = 64, 4
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
