"""FSDP2 gathers the output matrix as a unit of its own, which exists twice until it is copied out."""

from __future__ import annotations

import pytest
from estimate_shapes import layout

from recipec.catalog.models import model
from recipec.estimate.moments import moments
from recipec.estimate.step import step_of
from recipec.estimate.workload import Workload


def test_an_evaluation_holds_the_output_matrix_twice() -> None:
    """A simulated step of GLM-4-9B: 15,815 MiB without the copy (2026-11-29)."""
    shape, plan = model("zai-org/GLM-4-9B-0414").architecture, layout("full", 2, 8, "fsdp")
    terms = moments(step_of(shape, plan, Workload(seq_len_tokens=1024)))["evaluation"]
    assert sum(terms.values()) / 2**20 == pytest.approx(16237, rel=0.005)
