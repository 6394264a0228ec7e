"""What DeepSpeed gathers ahead, against the configuration that a bundle hands it, as DeepSpeed itself reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts
from estimate_shapes import LLAMA_8B, layout

from recipec.catalog.models import model
from recipec.estimate.memory import step_memory
from recipec.estimate.moments import _last_backward
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


@pytest.mark.parametrize(("precision", "each"), [("bf16", 2), ("fp32", 4)])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_zero3_holds_the_buffer_of_its_gradients_at_all_times(precision, each, accumulation):
    """DeepSpeed 0.19 stage3.py, grad_partitions_flat_buffer: in the type of the weights; ZeRO-2 has none."""
    terms, moments = {}, {}
    for strategy in ("zero2", "zero3"):
        shape = layout("full", 1, 4, strategy, precision=precision, accumulation=accumulation)
        terms[strategy] = step_of(LLAMA_8B, shape, Workload()).fixed.resident
        moments[strategy] = step_memory(LLAMA_8B, shape, Workload()).moments
    assert terms["zero3"]["gradients"] == each * LLAMA_8B.params / 4
    assert "gradients" not in terms["zero2"]
    for moment in ("forward", "loss", "layer_backward", "optimizer_step", "evaluation", "save"):
        assert moments["zero3"][moment] >= sum(terms["zero3"].values()), moment


def test_gradients_that_zero3_offloads_are_in_host_memory():
    shape = layout("full", 1, 4, "zero3", offload="optimizer")
    assert "gradients" not in step_of(LLAMA_8B, shape, Workload()).fixed.resident


def test_gradients_of_other_ranks_stay_on_the_gpu_where_zero1_offloads():
    """All of them until the last of several micro steps is done; on the host is the share of the rank."""
    plain, whole = (
        step_of(LLAMA_8B, layout("full", 1, 4, name, offload="cpu", accumulation=2), Workload()).fixed
        for name in ("zero2", "zero1")
    )
    each = 2 * LLAMA_8B.params
    assert (plain.states.accumulated, plain.states.gradients) == (0, 0)
    assert (whole.states.accumulated, whole.states.gradients) == (each, each * 3 / 4)
    assert whole.accumulating["gradients"] == each and whole.states.host == plain.states.host


def test_the_last_layer_to_run_backward_finds_all_of_the_buffer():
    """Its own gradients have their place there before they exist."""
    shape = layout("full", 8, 4, "zero3")
    step = step_of(LLAMA_8B, shape, Workload())
    backward = _last_backward(step)
    assert backward["gradients"] == step.fixed.states.gradients == 2 * LLAMA_8B.params / 4


@pytest.mark.parametrize("ranks", [1, 4, 16])
def test_zero3_has_the_fp32_gradients_of_one_sub_group_at_a_time(zero, ranks):
    """And the flat copy that they are made from; 0.5 billion weights of a rank are less than a sub-group."""
    shape = layout("full", 1, ranks, "zero3")
    states = step_of(LLAMA_8B, shape, Workload()).fixed.states
    assert states.step_gradients == pytest.approx(6 * min(LLAMA_8B.params / ranks, zero.sub_group_size))
