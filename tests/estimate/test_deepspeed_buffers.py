"""What DeepSpeed gathers ahead, against the configuration that a bundle hands it, as DeepSpeed itself reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts
from estimate_shapes import layout

from recipec.catalog.models import model
from recipec.estimate.step import step_of
from recipec.estimate.workload import Workload


@pytest.fixture(scope="module")
def zero(tmp_path_factory: pytest.TempPathFactory):
    """The emitted section, in DeepSpeed's own class."""
    runtime = pytest.importorskip("deepspeed.runtime.zero.config")
    folder: Path = tmp_path_factory.mktemp("bundle")
    config = json.loads(texts(good(folder, BASES["zero3-offload"]))["configs/deepspeed.json"])
    return runtime.DeepSpeedZeroConfig(**config["zero_optimization"])


def test_zero3_holds_the_prefetch_bucket_the_reused_layers_and_the_embedding(zero):
    """Elements of two bytes: "Maximum number of parameter elements to fetch ahead of use"."""
    architecture = model("Qwen/Qwen2.5-7B-Instruct").architecture
    buffers = step_of(architecture, layout("full", 1, 4, "zero3"), Workload()).fixed.buffers
    reused = min(architecture.params, min(zero.max_reuse_distance, zero.max_live_parameters) // 2)
    embedding = architecture.vocab_size * architecture.hidden_size
    ahead = buffers.forward.layers / 2 - reused - embedding
    assert ahead == pytest.approx(zero.prefetch_bucket_size, rel=1e-6)
    assert zero.prefetch_bucket_size > 10_000_000


def test_zero2_holds_the_bucket_that_gradients_are_reduced_in(zero):
    architecture = model("Qwen/Qwen2.5-7B-Instruct").architecture
    buffers = step_of(architecture, layout("full", 1, 4, "zero2"), Workload()).fixed.buffers
    assert buffers.idle / 2 == zero.reduce_bucket_size
