"""The file that `hardware.measured` names: read, checked, and held against the hardware that the recipe states."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from msgspec.structs import replace

from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.measured import measured_from
from recipec.catalog.stack import stack
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.measured_limits import PROBE_ANEW, impossible
from recipec.facts.measured_table import findings
from recipec.facts.working_folder import path_from_recipe
from recipec.files import why_no_file
from recipec.recipe import LoadedRecipe
from recipec.recipe.document import Document, parse
from recipec.recipe.schema_hardware import Hardware
from recipec.recipe.source import read

OLD_DAYS = 180  # our decision: two releases of the stack and several of a driver
MEMORY_TOLERATED = 0.1  # of the memory of a GPU


def measured_gpu(loaded: LoadedRecipe, card: Gpu, report: Report) -> Gpu:
    """The device with what was measured of it; unchanged where the recipe names no file, or an unusable one.

    Reports E0001 to E0006 and E01xx for a file, E02xx for its tables, E0412 and E0413 for figures of another machine
    or beyond what the card can do, and W0524 for old ones.
    """
    document = _read(loaded, report)
    if document is None:
        return card
    wrong = list(findings(document)) or list(_of_another(loaded, card, document))
    wrong = wrong or list(impossible(loaded, card, document, today()))
    for finding in wrong or _old(loaded, document):
        report.add(finding)
    return card if wrong else _with_figures(loaded, card, document)


def _read(loaded: LoadedRecipe, report: Report) -> Document | None:
    """The file; None where none is named, or with a diagnostic where it cannot be read."""
    name = loaded.recipe.hardware.measured
    if name is None:
        return None
    place, path = loaded.place("hardware", "measured"), loaded.folder / name
    if not os.path.isfile(path):  # where pathlib raises for names that no file can have
        if odd := "is a folder" if os.path.isdir(path) else why_no_file(path):
            report.add(Diagnostic("E0002", f"the file of measurements `{name}` {odd}", (Label(place, "named here"),)))
            return None
        label = Label(place, "named here")
        help = ("`recipec probe -o my-node.toml` writes one; the path starts at the folder of the recipe that sets it",)
        help = path_from_recipe(name, loaded.folder) or help
        report.add(Diagnostic("E0001", f"no file of measurements `{name}`", (label,), help))
        return None
    beside = Path(loaded.document.source.shown).parent
    source = read(path, Path(os.path.normpath(beside / name)).as_posix(), report, place)
    return parse(source, report) if source else None


def _with_figures(loaded: LoadedRecipe, card: Gpu, document: Document) -> Gpu:
    """Memory too, but for what the recipe states; the processes of a CPU share it and its rates."""
    hardware, on_cpu = loaded.recipe.hardware, card.kind == "cpu"
    shares = hardware.gpus_per_node or 1 if on_cpu else 1
    measured = measured_from(document.source.path.stem, document.data, shares)
    gib = measured.memory_gib
    if on_cpu:
        gib = None if hardware.host_memory_gib else measured.host_memory_gib / shares
    if gib is None or hardware.vram_gib is not None:
        return replace(card, measured=measured)
    # Of a GPU memory_gb stays the data sheet's, which the thresholds of rules mean; a CPU has none.
    gb = gib * 2**30 / 1e9 if on_cpu else card.memory_gb
    return replace(card, measured=measured, memory_gib=gib, memory_gb=gb, memory_note=measured.label)


def _of_another(loaded: LoadedRecipe, card: Gpu, document: Document) -> Iterator[Diagnostic]:
    """What says that the file is of another machine than the recipe's (E0412)."""
    machine, hardware = document.data["machine"], loaded.recipe.hardware
    own = "vram_gib" if hardware.vram_gib is not None else "gpu"
    wanted, places = loaded.place("hardware", own), document.places
    if (machine["device"] == "cpu") != (card.kind == "cpu"):
        measured = "a CPU" if machine["device"] == "cpu" else "GPUs"
        yield _other(f"{measured} measured", places[("machine", "device")].value, f"trains on {card.name}", wanted)
        return
    if card.kind == "cpu":
        return
    names, count = machine["gpus"], hardware.gpus_per_node or 1
    at = places[("machine", "gpus")].value
    strangers = [name for name in names if not _is(name, card, hardware, document)]
    if strangers:
        yield _other(f"`{strangers[0]}` measured", at, f"trains on {card.name}", wanted)
    elif len(names) != count:
        stated = "gpus_per_node" if loaded.is_set("hardware", "gpus_per_node") else own
        yield _other(f"{len(names)} measured", at, f"trains on {count} of a node", loaded.place("hardware", stated))
    else:
        yield from _of_another_size(card, document, wanted)


def _is(name: str, card: Gpu, hardware: Hardware, document: Document) -> bool:
    """Whether a GPU that calls itself `name` is the recipe's: by name, or by memory where that is all it has."""
    if hardware.vram_gib is None:
        found = gpu(name)
        return found is not None and found.name == card.name
    total = document.data.get("gpu_memory", {}).get("total_gib", hardware.vram_gib)
    return _as_large(total, hardware.vram_gib)


def _of_another_size(card: Gpu, document: Document, wanted: Place) -> Iterator[Diagnostic]:
    """A GPU that has the name of the recipe's and not its memory: a part of one, or an edited file."""
    total = document.data.get("gpu_memory", {}).get("total_gib", card.memory_gib)
    if not _as_large(total, card.memory_gib):
        at = document.places[("gpu_memory", "total_gib")].value
        yield _other(f"{total:g} GiB measured", at, f"trains on {card.name}: {card.memory_gib:g} GiB", wanted)


def _as_large(gib: float, known_gib: float) -> bool:
    return abs(gib / known_gib - 1) <= MEMORY_TOLERATED


def _other(measured: str, at: Place, trains: str, wanted: Place) -> Diagnostic:
    labels = (Label(at, measured), Label(wanted, trains))
    help = (
        "run `recipec probe` on the machine that trains; CUDA_VISIBLE_DEVICES says which of its GPUs are measured",
        "or remove `hardware.measured`",
    )
    return Diagnostic("E0412", "the measurements are of another machine", labels, help)


def _old(loaded: LoadedRecipe, document: Document) -> Iterator[Diagnostic]:
    """Whether the figures may not hold any more: half a year old, or of another minor version of torch (W0524)."""
    reasons = []
    if document.data["date"] < today() - timedelta(days=OLD_DAYS):
        day = document.places[("date",)].value
        reasons.append(Label(day, f"more than {OLD_DAYS} days ago"))
    measured, planned = document.data["machine"]["torch"], dict(stack())["torch"]
    if _minor(measured) != _minor(planned):
        reasons.append(Label(document.places[("machine", "torch")].value, f"the bundle installs {planned}"))
    if reasons:
        labels = (*reasons, Label(loaded.place("hardware", "measured"), "named here"))
        yield Diagnostic("W0524", "the measurements may be out of date", labels, (PROBE_ANEW,))


def today() -> date:
    """The day on which a recipe is compiled."""
    return date.today()


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
