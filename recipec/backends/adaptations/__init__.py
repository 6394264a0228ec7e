"""What an adaptation brings to a bundle: one file per family of adapters, per quantized base and per variant with code
of its own, found by name."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, Adaptation
from recipec.backends.files import file_of
from recipec.backends.job import StageJob
from recipec.backends.parts import Part


def names_of(row: Adaptation) -> list[str]:
    """The files behind a row, its adapters before its base."""
    return [row.family] * (not row.trains_all) + [row.base] * row.quantized


# A file that is missing here is refused by its row's name before anything is compiled: recipec.backends.missing.
FILES: dict[str, ModuleType] = {
    name: file for row in ADAPTATIONS.values() for name in names_of(row) if (file := file_of(__name__, name))
}
VARIANTS: dict[str, ModuleType] = {
    name: file for name, row in LORA_VARIANTS.items() if row.own_code and (file := file_of(__name__, name))
}


def adaptation_parts(stage: StageJob) -> Iterator[Part]:
    """What train.py needs to train what the stage adapts."""
    for name in names_of(stage.adapts):
        yield FILES[name].part(stage)
    if stage.variant.own_code:
        yield VARIANTS[stage.variant.name].part(stage)


def quantized_base(stage: StageJob) -> ModuleType | None:
    """The file of the stage's quantized base; None where the base is as it is."""
    return FILES[stage.adapts.base] if stage.adapts.quantized else None
