"""What of a step's traffic computation hides, and what of offloading crosses the bus."""

from __future__ import annotations

import pytest
from estimate_shapes import LLAMA_8B, layout
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.estimate import traffic
from recipec.estimate.links import COLLECTIVE_SECONDS, HOP_SECONDS, Group, link_of, transfer_seconds
from recipec.estimate.step import step_of
from recipec.estimate.throughput import step_time
from recipec.estimate.traffic import (
    EXPOSED_SHARE,
    HIDDEN_SHARE,
    Exchange,
    communication_seconds,
    exchanges,
    inside_layers,
)
from recipec.estimate.workload import Workload
from recipec.layout import Mesh

A100 = gpu("a100-80gb")
PLAIN = Workload()
NVLINK = link_of(A100, gpus_per_node=8, network_gbps=100)
PARAMS = LLAMA_8B.params
EVER = 1e9  # seconds of a micro step behind which everything hides that can


def waited(shape, micro: float) -> float:
    return communication_seconds(LLAMA_8B, shape, step_of(LLAMA_8B, shape, PLAIN), NVLINK, micro)


@pytest.mark.parametrize("strategy", ["zero1", "zero2"])
def test_nothing_hides_the_gather_behind_the_optimizer(strategy):
    """DeepSpeed 0.19 stage_1_and_2.py: `step` ends with all_gather_dp_groups, on the stream that computes."""
    weights, gradients = (transfer_seconds(size * PARAMS, Group(8), NVLINK) for size in (2, 4))
    assert waited(layout("full", 1, 8, strategy), EVER) == pytest.approx(weights + EXPOSED_SHARE * gradients)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_what_comes_before_the_optimizer_hides(strategy):
    shape = layout("full", 1, 8, strategy)
    assert waited(shape, EVER) == pytest.approx(EXPOSED_SHARE * waited(shape, 0.0))


@pytest.mark.parametrize(
    ("strategy", "reduced"),
    [
        ("ddp", [True]),
        ("zero1", [True, False]),
        ("zero2", [True, False]),
        ("zero3", [False]),
        ("fsdp", [False]),
        ("hsdp", [False, True]),
    ],
)
def test_gradients_of_whole_models_are_all_reduced(strategy, reduced):
    """Of shards too, between the copies of HSDP; over two nodes that is less than what is gathered or scattered."""
    shape = layout("full", 1, 16, strategy)
    shape = replace(shape, mesh=Mesh(replicate=2, shard=8)) if strategy == "hsdp" else shape
    found = exchanges(shape, step_of(LLAMA_8B, shape, PLAIN), LLAMA_8B.num_layers)
    assert [exchange.reduces for exchange in found] == reduced


def test_tensor_parallel_layers_all_reduce():
    shape = replace(layout("full", 1, 8, "fsdp"), mesh=Mesh(shard=4, tensor=2))
    assert [each.reduces for each in inside_layers(LLAMA_8B, shape, step_of(LLAMA_8B, shape, PLAIN))] == [True]


def test_what_is_sent_once_a_step_has_the_room_that_a_micro_step_leaves(monkeypatch):
    each, last = Exchange(Group(8), per_micro_step=1e10), Exchange(Group(8), per_step=1e10)
    monkeypatch.setattr(traffic, "exchanges", lambda *_: [each, last])
    seconds = transfer_seconds(1e10, Group(8), NVLINK)
    found = waited(layout("full", 1, 8, "fsdp"), 1.5 * seconds / HIDDEN_SHARE)
    assert found == pytest.approx(EXPOSED_SHARE * seconds + seconds / 2)


# Bytes of a trained weight, both ways: gradients as 16-bit sums, the last sum in fp32, the updated weight.
@pytest.mark.parametrize(
    ("strategy", "accumulation", "copied"),
    [
        ("zero1", 1, 4 + 2),
        ("zero1", 4, 4 + 2),
        ("zero2", 1, 4 + 2),
        ("zero2", 4, 7 * 2 + 4 + 2),
        ("zero3", 1, 2 * 2 + 4 + 2),
        ("zero3", 4, 8 * 2 + 4 + 2),
    ],
)
def test_gradients_cross_the_bus_where_they_are_reduced(strategy, accumulation, copied):
    """The node's CPUs step all shards. Under ZeRO-1 the sums wait on the GPU."""
    offload = "optimizer" if strategy == "zero3" else "cpu"
    shape = layout("full", 1, 8, strategy, offload=offload, accumulation=accumulation)
    moved = step_time(LLAMA_8B, shape, PLAIN, A100, NVLINK).terms["offload"]
    assert moved == pytest.approx(0.8e-9 * PARAMS + copied * PARAMS / 8 / (32e9 * 0.75))
    wide = replace(NVLINK, host_cores=2, host_gb_s=63.0)
    moved = step_time(LLAMA_8B, shape, PLAIN, A100, wide).terms["offload"]
    assert moved == pytest.approx(1.75e-9 * PARAMS + copied * PARAMS / 8 / (63e9 * 0.75))


def test_weights_in_host_memory_are_updated_there():
    """They cross the bus once a pass, three with recomputation."""
    shape = layout("full", 1, 8, "zero3", offload="cpu", accumulation=2)
    moved = step_time(LLAMA_8B, shape, PLAIN, A100, NVLINK).terms["offload"]
    copied = 4 * 2 + 4 + 2 * 3 * 2
    assert moved == pytest.approx(0.8e-9 * PARAMS + copied * PARAMS / 8 / (32e9 * 0.75))


@pytest.mark.parametrize("kind", sorted(HOP_SECONDS))
def test_a_message_takes_time_on_every_link(kind):
    slow, quick = (transfer_seconds(1, Group(8), replace(NVLINK, kind=kind), collectives) for collectives in (100, 0))
    assert slow > quick + 100 * COLLECTIVE_SECONDS > 0
