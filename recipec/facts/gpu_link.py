"""The link that a recipe states between the GPUs of a node, held against what the GPU can have."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.tasks import AUTO
from recipec.catalog.gpus import BRIDGED, FABRIC, NVLINK, PCIE, Gpu
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe

_NAMES = {PCIE: "PCI Express", NVLINK: "NVLink", FABRIC: "Infinity Fabric"}
_KEY = ("hardware", "gpu_link")


def check_link(loaded: LoadedRecipe, gpu: Gpu) -> Iterator[Diagnostic]:
    """Yield E0401 for a link that the GPU cannot have, and W0513 for bridges that do not join all GPUs of a node."""
    stated = loaded.recipe.hardware.gpu_link
    if stated is None or stated == AUTO:
        return
    if stated not in gpu.links:
        yield _impossible(loaded, gpu, stated)
    elif stated == NVLINK and gpu.bridge_gb_s and (loaded.recipe.hardware.gpus_per_node or 1) > BRIDGED:
        yield _of_pairs(loaded, gpu)


def _impossible(loaded: LoadedRecipe, gpu: Gpu, stated: str) -> Diagnostic:
    label = Label(loaded.place(*_KEY, part="value"), f"{gpu.name} has no {_NAMES[stated]}")
    usual = Label(loaded.place("hardware", "gpu", part="value"), f"its usual link is {_NAMES[gpu.link]}")
    others = " or ".join(f'`gpu_link = "{link}"`' for link in gpu.links)
    title = f'`hardware.gpu_link = "{stated}"` is no link of the GPU'
    return Diagnostic("E0401", title, (label, usual), (f"set {others}, or remove `gpu_link`",))


def _of_pairs(loaded: LoadedRecipe, gpu: Gpu) -> Diagnostic:
    gpus = loaded.recipe.hardware.gpus_per_node
    label = Label(loaded.place(*_KEY, part="key"), f"an NVLink bridge joins {BRIDGED} GPUs of this kind")
    counted = Label(loaded.place("hardware", "gpus_per_node"), f"{gpus} GPUs")
    help = (f"remove `gpu_link`, or set `gpus_per_node = {BRIDGED}`",)
    note = f"data of {gpus} GPUs also pass from pair to pair, over {_NAMES[gpu.link]}: the plan counts with that rate"
    title = f"`hardware.gpu_link` has no effect with {gpus} GPUs"
    return Diagnostic("W0513", title, (label, counted), help, (note,))
