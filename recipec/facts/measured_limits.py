"""Measurements that no machine can have: rates above a peak, micro steps that contradict each other, a later date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from itertools import chain, pairwise
from math import inf
from typing import Any

from msgspec import Struct

from recipec.axes.tasks import AUTO
from recipec.catalog.gpus import NVLINK, Gpu
from recipec.catalog.machines import PCIE_GB_S, machine
from recipec.catalog.measured import PRECISIONS, TABLES, optimizer_gb_s, passes_tflops
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe
from recipec.recipe.document import Document

TOLERATED = 1.05  # of a peak: clocks above the data sheet's, and rounding; of a time: noise
CPU_TFLOPS_PER_CORE = 0.3  # fp32: two 16-wide units that multiply and add, at 4.7 GHz
CPU_MEMORY_GB_S = 2000.0  # two sockets with memory on the package; twelve channels of DDR5-6400 have 614 each
DISK_GB_S = 100.0  # seven of the fastest NVMe drives at once: our decision
FP32_SHARE = 0.5  # of the fp16 rate: consumer cards; A100 0.06, V100 0.13, L40S 0.25 (their data sheets)
PROBE_ANEW = "run `recipec probe` again, on the machine that trains and with nothing else running"

Row = Mapping[str, Any]
Path = tuple[str | int, ...]


class _Found(Struct, frozen=True):
    """A rate that the file tells, and where."""

    path: Path  # of the key that it stands in, or that it follows from
    what: str
    value: float
    peak: str
    row: Row


def impossible(loaded: LoadedRecipe, card: Gpu, document: Document, today: date) -> Iterator[Diagnostic]:
    """Yield E0413 for what cannot have been measured."""
    day = document.data["date"]
    if day > today + timedelta(days=1):  # the day has begun elsewhere
        yield _refused(document, ("date",), "the measurements are of a day to come", f"today is {today}")
    yield from _more_than_there_is(document)
    for found in chain(_rates(document.data), _of_micro_steps(document.data)):
        limit, unit = _peak(found, loaded, card, document.data)
        if found.value > TOLERATED * limit:
            title = f"{found.what} is more than a {card.name} can do"
            yield _refused(document, found.path, title, f"the peak is {limit:,.4g} {unit}")
    yield from _contradictions(document)


def _refused(document: Document, path: Path, title: str, message: str) -> Diagnostic:
    return Diagnostic("E0413", title, (Label(document.places[path].value, message),), (PROBE_ANEW,))


def _more_than_there_is(document: Document) -> Iterator[Diagnostic]:
    memory, host = document.data.get("gpu_memory"), document.data["machine"]["host_memory_gib"]
    for path in (("process", "started_gib"), ("heap", "grown_gib")):
        if document.data.get(path[0], {}).get(path[1], 0) > host:
            title, message = f"`{'.'.join(path)}` is more than the host has", f"of {host:g} GiB in all"
            yield _refused(document, path, title, message)
    if memory and memory["free_gib"] > memory["total_gib"]:
        title, message = "`gpu_memory.free_gib` is more than the GPU has", f"of {memory['total_gib']:g} GiB in all"
        yield _refused(document, ("gpu_memory", "free_gib"), title, message)


def _rates(data: Row) -> Iterator[_Found]:
    """The rates that stand in the file."""
    for name, table in TABLES.items():
        rows = data.get(name, ())
        placed = [((name, index), row) for index, row in enumerate(rows)] if table.many else [((name,), rows)]
        for path, row in placed if rows else ():
            for key, peak in table.limits.items():
                yield _Found((*path, key), f"`{name}.{key}`", row[key], peak, row)


def _of_micro_steps(data: Row) -> Iterator[_Found]:
    """The rates that follow from micro steps."""
    for index, row in enumerate(data.get("micro_step", ())):
        path = ("micro_step", index)
        passes, moved = passes_tflops(row), optimizer_gb_s(row)
        said = f"`micro_step.passes_seconds` makes {passes:,.4g} TFLOP/s, which"
        yield _Found((*path, "passes_seconds"), said, passes, "products", row)
        said = f"`micro_step.optimizer_seconds` makes {moved:,.4g} GB/s, which"
        yield _Found((*path, "optimizer_seconds"), said, moved, "memory", row)


def _peak(found: _Found, loaded: LoadedRecipe, card: Gpu, data: Row) -> tuple[float, str]:
    """What the machine can do at most, and its unit; infinite of a card that only its memory describes."""
    if found.peak == "disk":
        return DISK_GB_S, "GB/s"
    if card.kind == "cpu":  # the catalog only assumes what it does
        products = found.peak == "products"
        return (CPU_TFLOPS_PER_CORE * data["machine"]["cores"], "TFLOP/s") if products else (CPU_MEMORY_GB_S, "GB/s")
    if loaded.recipe.hardware.vram_gib is not None:
        return inf, ""
    if found.peak == "products":
        return _products(card, found.row["dtype"]), "TFLOP/s"
    if found.peak == "link":
        return _link(loaded, card, found.row), "GB/s"
    return (_slot(loaded, card) if found.peak == "slot" else card.bandwidth_gb_s), "GB/s"


def _products(card: Gpu, dtype: str) -> float:
    if dtype == "fp32":
        return FP32_SHARE * card.fp16_tflops
    return card.bf16_tflops if dtype == "bf16" and card.bf16_tflops else card.fp16_tflops


def _link(loaded: LoadedRecipe, card: Gpu, row: Row) -> float:
    """A switch that adds halves what an all-reduce sends; of PCI Express in the place of NVLink nothing is known."""
    stated = loaded.recipe.hardware.gpu_link
    bridge = card.bridge_gb_s if stated == NVLINK else None
    if bridge is None and stated not in (None, AUTO, card.link):
        return inf
    return (2 if row["kind"] == "all_reduce" else 1) * (bridge or card.link_gb_s)


def _slot(loaded: LoadedRecipe, card: Gpu) -> float:
    """PCI Express of the machines that the card is in; the fastest for a card that nobody looked at."""
    usual = machine(card.name, loaded.recipe.hardware.gpus_per_node or 1)
    return usual.pcie_gb_s if usual.checked else max(PCIE_GB_S.values())


def _contradictions(document: Document) -> Iterator[Diagnostic]:
    """Micro steps of more tokens that take less time than those of fewer."""
    rows = list(enumerate(document.data.get("micro_step", ())))
    for dtype in PRECISIONS:
        of_it = [(row["sequences"] * row["tokens"], index, row) for index, row in rows if row["dtype"] == dtype]
        for (fewer, _, short), (more, index, long) in pairwise(sorted(of_it, key=lambda each: each[:2])):
            if more > fewer and long["passes_seconds"] * TOLERATED < short["passes_seconds"]:
                message = f"{more:,} tokens; {fewer:,} took {short['passes_seconds']:g} s"
                title = "the micro steps contradict each other"
                yield _refused(document, ("micro_step", index, "passes_seconds"), title, message)
