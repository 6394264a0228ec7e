"""What an estimate keeps for layouts that differ in OF_BATCHES alone depends on none of these."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled
from msgspec.structs import replace

from recipec.estimate.step import OF_BATCHES, fixed_by, fixed_of

OTHER = {
    "micro_batch": 4,
    "accumulation": 3,
    "attention": "eager",
    "packing": True,
    "served_by": 2,
    "checkpointing": False,
    "recompute_every": 2,
    "activation_offload": True,
}


@pytest.mark.parametrize("base", BASES)
def test_nothing_of_a_batch_is_read(tmp_path: Path, base: str) -> None:
    assert OTHER.keys() == OF_BATCHES.keys() and not any(OTHER[key] == OF_BATCHES[key] for key in OTHER)
    found = compiled(tmp_path, BASES[base], only_plan=True)
    assert found.plan is not None and found.facts is not None
    shape = found.facts.model.architecture
    for plan in found.plan.stages:
        read = fixed_by.__wrapped__(shape, replace(plan.layout, **OTHER), plan.work)
        assert read == fixed_of(shape, plan.layout, plan.work)
