"""What an adaptation brings to a bundle: one file per family of adapters and one per quantized base, found by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from recipec.axes import ADAPTATIONS, Adaptation
from recipec.backends.job import StageJob
from recipec.backends.parts import Part


def files_of(row: Adaptation) -> tuple[ModuleType, ...]:
    """The files behind a row, its adapters before its base; raises where one is missing."""
    names = [row.family] * (not row.trains_all) + [row.base] * row.quantized
    return tuple(import_module(f"{__name__}.{name}") for name in names)


FILES = {row.name: files_of(row) for row in ADAPTATIONS.values()}


def adaptation_parts(stage: StageJob) -> Iterator[Part]:
    """What train.py needs to train what the stage adapts."""
    for file in FILES[stage.adapts.name]:
        yield file.part(stage)


def quantized_base(stage: StageJob) -> ModuleType | None:
    """The file of the stage's quantized base; None where the base is as it is."""
    return FILES[stage.adapts.name][-1] if stage.adapts.quantized else None
