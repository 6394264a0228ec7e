"""How fast ranks reach each other, and what each strategy sends over a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from recipec.estimate.codepath import DEEPSPEED
from recipec.layout import Layout

# Share of the peak rate that NCCL's ring collectives reach on large messages (nccl-tests bus bandwidth: A100 NVLink
# 230 of 300 GB/s, H100 360 of 450; PCIe cards share a root complex and consumer cards lack peer access).
ACHIEVED = {"nvlink": 0.77, "infinity-fabric": 0.65, "pcie": 0.4, "network": 0.8}
PCIE_GB_S = 32.0  # PCIe 4.0 x16, one direction
PCIE_ACHIEVED = 0.75  # pinned copies to and from the host


class _Gpu(Protocol):
    link: str
    link_gb_s: float


@dataclass(frozen=True, slots=True)
class Link:
    """The path between ranks."""

    kind: str  # nvlink | infinity-fabric | pcie
    gb_s: float  # per GPU and direction, peak
    gpus_per_node: int = 8
    network_gb_s: float = 12.5  # per node and direction; 100 Gbit/s where nothing is known


def link_of(gpu: _Gpu, kind: str = "auto", gpus_per_node: int = 8, network_gbps: float | None = None) -> Link:
    """The link of a node of `gpu`s; `kind` overrides what the catalog says."""
    chosen = gpu.link if kind == "auto" else kind
    rate = gpu.link_gb_s if chosen == gpu.link else PCIE_GB_S
    return Link(chosen, rate, gpus_per_node, (network_gbps or 100.0) / 8)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one full copy that a collective moves; a ring sends (N-1)/N of it per rank."""

    per_micro_step: float
    per_step: float


def traffic(layout: Layout, params: int, trainable: int) -> Traffic:
    """What the strategy communicates: DDP 2 gradients a step; ZeRO-1/2 gradients and updated weights; FSDP and ZeRO-3
    weights twice a micro step and gradients once.
    """
    weights, gradients = 2.0 * params, 2.0 * trainable
    if layout.mesh.data_parallel == 1 or layout.strategy == "single":
        return Traffic(0.0, 0.0)
    if layout.strategy in ("fsdp", "hsdp", "zero3"):
        return Traffic(2 * weights + gradients, 0.0)
    if layout.strategy in DEEPSPEED:
        return Traffic(gradients if layout.strategy == "zero2" else 0.0, gradients + gradients)
    return Traffic(0.0, 2 * 4.0 * trainable)  # an all-reduce of fp32 gradients: reduce-scatter and all-gather


def transfer_seconds(moved_bytes: float, layout: Layout, link: Link) -> float:
    """Time of collectives that move `moved_bytes`: the ring within a node, then the network between nodes."""
    ranks = layout.mesh.data_parallel
    if ranks == 1 or not moved_bytes:
        return 0.0
    inside = min(ranks, link.gpus_per_node)
    seconds = moved_bytes * (inside - 1) / inside / (link.gb_s * ACHIEVED[link.kind] * 1e9)
    nodes = -(-ranks // link.gpus_per_node)
    if nodes > 1:
        seconds += moved_bytes * (nodes - 1) / nodes / (link.network_gb_s * ACHIEVED["network"] * 1e9)
    return seconds
