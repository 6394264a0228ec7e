"""Collectives over several nodes, against rates that were measured."""

from __future__ import annotations

import pytest

from recipec.catalog.gpus import gpu, gpu_from_vram
from recipec.estimate.links import Group, link_of, transfer_seconds

# nccl-tests on nodes of eight GPUs, bus bandwidth of large messages in GB/s (read 2026-11-22). Left out: A100 on
# 8 x 100 Gbit/s, which reached 57 to 75 in two runs that were asked about as slow (NVIDIA/nccl#495, #527).
ALL_REDUCED = [
    ("a100-80gb", 16, 400, 78.3),  # awslabs/awsome-distributed-training, micro-benchmarks/nccl-tests: p4de
    ("a100-80gb", 16, 1600, 189.6),  # oracle-quickstart/oci-hpc-oke, BM.GPU.B4.8
    ("a100-80gb", 24, 800, 96.0),  # NVIDIA/nccl-tests#119
    ("h100", 16, 3200, 487.0),  # awslabs, p5: the switches of NVLink add up
    ("h200", 32, 3200, 364.9),  # awslabs, p5en
    ("h200", 128, 3200, 369.9),  # the same
    ("h200", 16, 3200, 455.0),  # skypilot docs, CoreWeave: the switches of NVLink add up
    ("b200", 32, 3200, 381.8),  # awslabs, p6-b200
    ("mi300x", 16, 3200, 357.0),  # oracle-quickstart/oci-hpc-oke
]
GATHERED = [
    ("h100", 16, 800, 71.0),  # GoogleCloudPlatform/cluster-toolkit, a3-high
    ("h100", 16, 1600, 188.7),  # a3-mega
    ("h200", 16, 3200, 328.9),  # a3-ultra
]


@pytest.mark.parametrize(("card", "ranks", "gbps", "measured"), GATHERED)
def test_all_gathers_over_nodes_take_what_was_measured(card, ranks, gbps, measured):
    link = link_of(gpu(card), gpus_per_node=8, network_gbps=gbps)
    rate = (ranks - 1) / ranks / transfer_seconds(1e9, Group(ranks), link)
    assert rate == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(("card", "ranks", "gbps", "measured"), ALL_REDUCED)
def test_all_reduces_over_nodes_take_what_was_measured(card, ranks, gbps, measured):
    link = link_of(gpu(card), gpus_per_node=8, network_gbps=gbps)
    rate = 2 * (ranks - 1) / ranks / transfer_seconds(2e9, Group(ranks), link, reduces=True)
    assert rate == pytest.approx(measured, rel=0.3)


def test_a_ring_sends_all_but_a_ranks_share_out_of_each_node():
    link = link_of(gpu("h100"), gpus_per_node=8, network_gbps=100)
    per_byte = 1 / (12.5e9 * 0.8)
    assert transfer_seconds(1e9, Group(16), link) == pytest.approx(15 / 16 * 1e9 * per_byte)
    assert transfer_seconds(2e9, Group(16), link, reduces=True) == pytest.approx(1e9 * per_byte)
    assert transfer_seconds(2e9, Group(32), link, reduces=True) == pytest.approx(2 * 31 / 32 * 1e9 * per_byte)


def test_copies_with_a_rank_in_each_node_share_its_network():
    """HSDP's replicas: eight groups, each with its eighth of the gradients."""
    link = link_of(gpu("h100"), gpus_per_node=8, network_gbps=100)
    shards = transfer_seconds(2e9 / 8, Group(2, 8), link, reduces=True)
    assert shards == pytest.approx(transfer_seconds(2e9, Group(16), link, reduces=True))


def test_in_an_all_to_all_every_rank_of_a_node_sends_into_its_network():
    """Two nodes of eight: half of what each of the eight has goes to the other node."""
    link = link_of(gpu("h100"), gpus_per_node=8, network_gbps=100)
    assert transfer_seconds(1e9, Group(16), link, to_all=True) == pytest.approx(8 * 0.5e9 / (12.5e9 * 0.8))
    inside = transfer_seconds(1e9, Group(8), link, to_all=True)
    assert inside == pytest.approx(transfer_seconds(1e9, Group(8), link))


def test_without_its_own_link_a_card_reaches_others_as_it_reaches_the_host():
    stated = link_of(gpu("h100"), "pcie")
    assert stated.gb_s == stated.host_gb_s == 63.0
    unknown = link_of(gpu_from_vram(24))
    assert unknown.gb_s == unknown.host_gb_s == 16.0


def test_a_bridge_has_its_own_rate_and_joins_two_cards():
    """A ring of four passes from pair to pair over PCI Express, whatever joins the pairs."""
    card = gpu("a100-80gb-pcie")
    pair, four = (link_of(card, "nvlink", gpus_per_node=count) for count in (2, 4))
    assert (pair.kind, pair.gb_s) == ("nvlink", 300.0)
    assert four == link_of(card, gpus_per_node=4) and four.kind == "pcie"
    assert link_of(gpu("rtx-3090"), "nvlink", 2).gb_s == 56.25


def test_a_link_that_a_card_cannot_have_is_not_planned_with():
    """Advice names other GPUs than the one whose link the recipe states."""
    assert link_of(gpu("l40s"), "nvlink", 2) == link_of(gpu("l40s"), gpus_per_node=2)
    assert link_of(gpu_from_vram(24), "nvlink", 2).kind == "nvlink"
