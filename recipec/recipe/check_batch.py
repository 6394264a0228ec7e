"""Batch sizes that do not divide."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic
from recipec.recipe.exclusive import STAGES
from recipec.recipe.written import Written

_GPUS = ("hardware", "gpus_per_node")


def indivisible_batches(written: Written) -> Iterator[Diagnostic]:
    """A global batch is a whole number of micro batches on every GPU."""
    gpus = (written.get(*_GPUS) or 1) * (written.get("hardware", "nodes") or 1)
    for table in (("train",), *(("train", stage) for stage in STAGES)):
        total, micro = setting(written, table, "global_batch_size"), setting(written, table, "micro_batch_size")
        if not total or not micro or not any(written.has(*path) for path in (total, micro) if path[:-1] == table):
            continue
        size, part = written.get(*total), written.get(*micro)
        if size % (part * gpus):
            yield _indivisible(written, total, micro, gpus)


def setting(written: Written, table: tuple[str, ...], key: str) -> tuple[str, ...] | None:
    """Return where a stage's value is set: in its own table, else in [train]."""
    return next((path for path in ((*table, key), ("train", key)) if written.get(*path) is not None), None)


def _indivisible(written: Written, total: tuple[str, ...], micro: tuple[str, ...], gpus: int) -> Diagnostic:
    size, part = written.get(*total), written.get(*micro)
    labels = [written.label(total, "the whole"), written.label(micro, "does not divide it")]
    if written.has(*_GPUS):
        labels.append(written.label(_GPUS, f"on each of {gpus}"))
    step = part * gpus
    near = sorted({max(step, size // step * step), size // step * step + step})
    title = f"a global batch of {size} is not a multiple of micro batch x GPUs = {part} x {gpus}"
    help = f"use global_batch_size = {' or '.join(str(value) for value in near)}"
    return Diagnostic("E0401", title, tuple(labels), (help,))
