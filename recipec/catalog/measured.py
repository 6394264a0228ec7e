"""What `recipec probe` measured of one machine: the tables of its file, and what the estimates take from them.

Units are in the names; GB are 10^9 bytes. `X_spread` beside a figure `X` is the distance of its 10th and its 90th
percentile as a share of the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from math import log
from typing import Any

from msgspec import Struct

FORMAT = 1  # of the file; a later one may have other keys
SPREAD = "_spread"
PRECISIONS = ("fp32", "bf16", "fp16")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")


class Table(Struct, frozen=True):
    """One table of the file, or a list of them: the keys that it needs, by what they hold."""

    figures: tuple[str, ...] = ()  # measured: positive numbers, each with its spread
    sizes: tuple[str, ...] = ()  # of what was measured: positive whole numbers
    amounts: tuple[str, ...] = ()  # positive numbers that were read once
    texts: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = {}
    lists: tuple[str, ...] = ()  # of texts
    limits: Mapping[str, str] = {}  # of rates: which peak each has, as facts/measured_limits.py calls it
    many: bool = False
    needed: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys in the order of the file."""
        spreads = tuple(key for figure in self.figures for key in (figure, figure + SPREAD))
        return (*self.choices, *self.lists, *self.texts, *self.sizes, *self.amounts, *spreads)


TABLES = {
    "machine": Table(
        choices={"device": ("cuda", "cpu")},
        lists=("gpus",),
        texts=("cpu", "torch", "transformers", "driver"),
        sizes=("cores",),
        amounts=("host_memory_gib",),
        needed=True,
    ),
    "process": Table(figures=("start_seconds",), amounts=("started_gib",)),
    "heap": Table(sizes=("sequences", "tokens"), amounts=("grown_gib",)),
    "gpu_memory": Table(amounts=("total_gib", "free_gib")),
    "memory_copy": Table(figures=("gb_s",), limits={"gb_s": "memory"}),
    "host_link": Table(
        figures=("to_device_gb_s", "to_host_gb_s"), limits={"to_device_gb_s": "slot", "to_host_gb_s": "slot"}
    ),
    "disk": Table(figures=("write_gb_s", "read_gb_s"), limits={"write_gb_s": "disk", "read_gb_s": "disk"}),
    "product": Table(
        choices={"dtype": PRECISIONS},
        sizes=("tokens", "width"),
        figures=("tflops",),
        limits={"tflops": "products"},
        many=True,
    ),
    "attention": Table(
        choices={"dtype": PRECISIONS},
        sizes=("tokens", "heads", "head_size"),
        figures=("tflops",),
        limits={"tflops": "products"},
        many=True,
    ),
    "collective": Table(
        choices={"kind": COLLECTIVES},
        sizes=("ranks", "mib"),
        figures=("seconds", "bus_gb_s"),
        limits={"bus_gb_s": "link"},
        many=True,
    ),
    "micro_step": Table(
        choices={"dtype": PRECISIONS},
        sizes=("parameters", "sequences", "tokens"),
        figures=("passes_seconds", "optimizer_seconds"),
        many=True,
    ),
}
HEAD = ("format", "date")  # above the tables
# What a key can hold on any machine, far around what machines have: our decision. Rates have peaks as well.
BOUNDS: dict[str, tuple[float, float]] = {
    "cores": (1, 4_096),
    "host_memory_gib": (0.1, 65_536),
    "started_gib": (0.001, 65_536),
    "grown_gib": (0.001, 65_536),
    "start_seconds": (0.01, 3_600),
    "total_gib": (0.1, 1_024),
    "free_gib": (0.001, 1_024),
    **dict.fromkeys(("gb_s", "to_device_gb_s", "to_host_gb_s", "write_gb_s", "read_gb_s"), (0.001, 1e5)),
    "bus_gb_s": (1e-6, 1e5),
    "tflops": (1e-6, 1e5),
    **dict.fromkeys(("seconds", "passes_seconds", "optimizer_seconds"), (1e-7, 3_600)),
    **dict.fromkeys(("tokens", "width", "heads", "head_size", "sequences"), (1, 2**30)),
    "ranks": (1, 65_536),
    "mib": (1, 2**20),
    "parameters": (1, 1e13),
}
SPREAD_BOUNDS = (0, 1_000)  # of every spread, which is a share


class Probed(Struct, frozen=True):
    """The model whose micro steps are measured, with tied embeddings, and its batches: sequences and tokens of each.

    The first batch is so small that what Python launches takes the time, the others are not.
    """

    hidden: int
    layers: int
    intermediate: int
    vocabulary: int
    heads: int
    batches: tuple[tuple[int, int], ...]


PROBED = {
    "cpu": Probed(384, 4, 1024, 8192, 6, ((1, 16), (16, 64), (4, 512))),
    "cuda": Probed(2048, 4, 5632, 32_000, 16, ((1, 16), (2, 1024), (2, 2048))),
}


class Rate(Struct, frozen=True):
    """A rate that depends on how many tokens are computed at once."""

    dtype: str
    tokens: int
    tflops: float


class MicroStep(Struct, frozen=True):
    """One of the micro steps of the probed model."""

    dtype: str
    sequences: int
    tokens: int
    passes_seconds: float


class Heap(Struct, frozen=True):
    """What micro steps of the probed model added to a process of a CPU, whose C library keeps freed blocks."""

    sequences: int
    tokens: int
    grown_gib: float


class Measured(Struct, frozen=True):
    """The figures that replace assumptions; None where the file does not have one. Rates are those of one device."""

    name: str  # of the file
    date: date
    device: str  # cuda | cpu
    host_memory_gib: float
    cores: int
    copy_gb_s: float | None = None
    products: tuple[Rate, ...] = ()
    attention: tuple[Rate, ...] = ()
    micro_steps: tuple[MicroStep, ...] = ()
    host_link_gb_s: float | None = None
    bus_gb_s: float | None = None  # between the ranks of the node: the slowest kind of collective, large
    collective_seconds: float | None = None  # of a small one, without its transfer
    context_gib: float | None = None  # of a GPU's memory, what a process takes before its first tensor
    memory_gib: float | None = None  # of a GPU
    process_gib: float | None = None  # host memory of a process that has trained the smallest model
    heap: Heap | None = None
    start_seconds: float | None = None
    disk_write_gb_s: float | None = None
    disk_read_gb_s: float | None = None  # past the file cache
    optimizer_gb_s: float | None = None  # memory traffic of the fused AdamW

    @property
    def label(self) -> str:
        """What a plan calls it."""
        return f"measured on {self.name}, {self.date}"


def measured_from(name: str, document: Mapping[str, Any], shares: int = 1) -> Measured:
    """The figures of a file that was checked; `shares` processes of a CPU share its rates."""
    machine = document["machine"]
    memory, copy = document.get("gpu_memory", {}), document.get("memory_copy", {})
    link, disk, process = (document.get(table, {}) for table in ("host_link", "disk", "process"))
    context = memory["total_gib"] - memory["free_gib"] if memory else None
    return Measured(
        name=name,
        date=document["date"],
        device=machine["device"],
        host_memory_gib=machine["host_memory_gib"],
        cores=machine["cores"],
        copy_gb_s=_share(copy.get("gb_s"), shares),
        products=_rates(document.get("product", ()), shares),
        attention=_rates(document.get("attention", ()), shares),
        micro_steps=tuple(_micro_step(row, shares) for row in document.get("micro_step", ())),
        host_link_gb_s=min(link["to_device_gb_s"], link["to_host_gb_s"]) if link else None,
        **_collectives(document.get("collective", ())),
        context_gib=context,
        memory_gib=memory.get("total_gib"),
        process_gib=process.get("started_gib"),
        heap=Heap(**document["heap"]) if "heap" in document else None,
        start_seconds=process.get("start_seconds"),
        disk_write_gb_s=disk.get("write_gb_s"),
        disk_read_gb_s=disk.get("read_gb_s"),
        optimizer_gb_s=_share(_optimizer(document.get("micro_step", ())), shares),
    )


def _share(rate: float | None, shares: int) -> float | None:
    return None if rate is None else rate / shares


def _rates(rows: Sequence[Mapping[str, Any]], shares: int) -> tuple[Rate, ...]:
    return tuple(Rate(row["dtype"], row["tokens"], row["tflops"] / shares) for row in rows)


def _micro_step(row: Mapping[str, Any], shares: int) -> MicroStep:
    return MicroStep(row["dtype"], row["sequences"], row["tokens"], row["passes_seconds"] * shares)


ADAMW_BYTES = 28  # of a weight in fp32: it, its gradient and two states are read, it and the states written


def _optimizer(rows: Sequence[Mapping[str, Any]]) -> float | None:
    rates = [optimizer_gb_s(row) for row in rows]
    return sorted(rates)[len(rates) // 2] if rates else None


def optimizer_gb_s(row: Mapping[str, Any]) -> float:
    """The memory traffic of the optimizer in a micro step."""
    return ADAMW_BYTES * row["parameters"] / row["optimizer_seconds"] / 1e9


def passes_tflops(row: Mapping[str, Any]) -> float:
    """The rate of the products of a micro step, attention left out: two operations of a weight in each of three."""
    return 6 * row["parameters"] * row["sequences"] * row["tokens"] / row["passes_seconds"] / 1e12


def _collectives(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The rate of the slowest kind where the message is largest, and how long the smallest takes beside its transfer.

    One size alone does not tell the two apart: then all of its time is taken for the rate.
    """
    if not rows:
        return {}
    sizes = [row["mib"] for row in rows]
    bus = min(row["bus_gb_s"] for row in rows if row["mib"] == max(sizes))
    if len(set(sizes)) == 1:
        return {"bus_gb_s": bus}
    waits = [row["seconds"] * (1 - row["bus_gb_s"] / bus) for row in rows if row["mib"] == min(sizes)]
    return {"bus_gb_s": bus, "collective_seconds": max(0.0, *waits)}


def rate_at(rates: Sequence[Rate], dtype: str, tokens: float) -> float | None:
    """Operations per second with so many tokens, between the measured numbers in proportion to their logarithms.

    Beyond the largest its rate; below the smallest in proportion to the tokens. None where `dtype` was not measured.
    """
    known = sorted((rate.tokens, rate.tflops * 1e12) for rate in rates if rate.dtype == dtype)
    if not known:
        return None
    if tokens <= known[0][0]:
        return known[0][1] * tokens / known[0][0]
    for (less, low), (more, high) in pairwise(known):
        if tokens <= more:
            return low + (high - low) * log(tokens / less) / log(more / less)
    return known[-1][1]
