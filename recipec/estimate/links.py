"""How fast ranks reach each other: the link within a node, the network between nodes."""

from __future__ import annotations

from math import inf
from typing import Protocol

from msgspec import Struct

from recipec.axes.tasks import AUTO
from recipec.catalog.gpus import BRIDGED, NVLINK
from recipec.catalog.machines import machine
from recipec.catalog.measured import Measured

# Share of the peak rate that NCCL's ring collectives reach on large messages (nccl-tests bus bandwidth: A100 NVLink
# 230 of 300 GB/s, H100 360 of 450; PCIe cards share a root complex and consumer cards lack peer access).
# Infinity Fabric and networks are our decision, the latter with nccl-tests over several nodes in view: all-gathers on
# H100 and H200 reach 0.71 to 0.94 of it (tests/estimate/test_links.py). NCCL gathers and scatters over nodes in rings,
# and all-reduces over two nodes in a tree, which sends one copy each way where a ring sends almost two (its
# src/graph/tuning.cc: a tree has half a ring's rate, but of two nodes' links inside them).
ACHIEVED = {"nvlink": 0.77, "infinity-fabric": 0.65, "pcie": 0.4, "network": 0.8}
PCIE_ACHIEVED = 0.75  # pinned copies to and from the host
# Seconds per collective and per hop of its ring, the model that NCCL itself chooses algorithms by: src/graph/tuning.cc,
# base latency of Ring/Simple and its hardware latencies for NVLink, PCI and network. The same in NCCL 2.18.1 (d97a32fa)
# and in 5067397c of 2026-06; before 2.18 the network's was 9.6 us (01afd20a of 2020). Read 2026-11. NCCL has none for
# Infinity Fabric: taken as NVLink's.
COLLECTIVE_SECONDS = 8.4e-6
HOP_SECONDS = {"nvlink": 3.4e-6, "infinity-fabric": 3.4e-6, "pcie": 5.7e-6, "network": 14.0e-6}


class _Gpu(Protocol):
    name: str
    link: str
    link_gb_s: float
    bridge_gb_s: float | None
    measured: Measured | None

    @property
    def links(self) -> tuple[str, ...]: ...


class Link(Struct, frozen=True):
    """The path between ranks, and to the host."""

    kind: str  # nvlink | infinity-fabric | pcie
    gb_s: float  # per GPU and direction, peak
    gpus_per_node: int
    network_gb_s: float  # per node and direction; infinite where there is one node
    host_gb_s: float  # of a GPU to host memory, per direction, peak
    host_cores: int | None = None  # of a node; None: not known
    measured: Measured | None = None

    @property
    def ring_gb_s(self) -> float:
        """What large collectives reach within a node."""
        return (self.measured and self.measured.bus_gb_s) or self.gb_s * ACHIEVED[self.kind]

    @property
    def copied_gb_s(self) -> float:
        """What pinned copies between a GPU and its host reach, one direction."""
        return (self.measured and self.measured.host_link_gb_s) or self.host_gb_s * PCIE_ACHIEVED

    def latency_seconds(self, hops: int) -> float:
        """Of a collective within a node, however little it moves."""
        measured = self.measured.collective_seconds if self.measured else None
        return COLLECTIVE_SECONDS + hops * HOP_SECONDS[self.kind] if measured is None else measured


class Group(Struct, frozen=True):
    """Ranks that talk to each other: `size` of them, every `stride`-th one, nodes filled in the order of ranks."""

    size: int
    stride: int = 1


def link_of(gpu: _Gpu, kind: str = AUTO, gpus_per_node: int = 8, network_gbps: float = inf) -> Link:
    """The link of a node of `gpu`s; `kind` overrides what is usual where they can have it.

    A bridge joins two: a ring of more passes from pair to pair over their own link. PCI Express has the rate to the
    host, and so has what the catalog does not know.
    """
    chosen, host = kind if kind in gpu.links else gpu.link, machine(gpu.name, gpus_per_node).pcie_gb_s
    rates = {gpu.link: gpu.link_gb_s}
    if chosen == NVLINK and gpu.bridge_gb_s:
        chosen = NVLINK if gpus_per_node <= BRIDGED else gpu.link
        rates[NVLINK] = gpu.bridge_gb_s
    return Link(chosen, rates.get(chosen, host), gpus_per_node, network_gbps / 8, host, measured=gpu.measured)


def transfer_seconds(
    moved_bytes: float, group: Group, link: Link, collectives: int = 0, *, reduces: bool = False, to_all: bool = False
) -> float:
    """Time of `collectives` over a group that together move `moved_bytes`: the size of one full copy, and twice that of
    an all-reduce (`reduces`).

    In a ring each rank sends (N-1)/N of it to the next, over the node's link or the network, whichever takes longer:
    chunks travel over both at the same time. What leaves the node shares its network with the other groups. In an
    all-to-all (`to_all`) each rank has such bytes of its own and sends every other one its part: all ranks of a node
    send into the network.
    """
    if group.size == 1 or not moved_bytes:
        return 0.0
    inside = max(1, min(group.size, link.gpus_per_node // group.stride))
    nodes = -(-group.size // inside)
    passed = moved_bytes * (group.size - 1) / group.size
    seconds = passed / (link.ring_gb_s * 1e9) if inside > 1 else 0.0
    if nodes > 1:
        left = moved_bytes / 2 if reduces and nodes == 2 else passed
        if to_all:
            left = inside * moved_bytes * (group.size - inside) / group.size
        beside = link.gpus_per_node / inside
        seconds = max(seconds, beside * left / (link.network_gb_s * ACHIEVED["network"] * 1e9))
    latency = link.latency_seconds(group.size - nodes) + (nodes - 1) * HOP_SECONDS["network"]
    return seconds + collectives * latency
