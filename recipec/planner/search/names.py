"""What a layout is called, for people."""

from __future__ import annotations

from recipec.axes import METHODS
from recipec.axes.strategies import EVERYTHING, STATES
from recipec.layout import Layout, Mesh


def family_of(stage: str, layout: Layout) -> str:
    """The kind of a layout, for people: "QLoRA, zero2 with CPU offload"."""
    offload = f" with {_OFFLOADS[layout.offload]}" if layout.offloads else ""
    return f"{adaptation_name(stage, layout)}, {layout.strategy}{_within_layers(layout.mesh)}{offload}"


_OFFLOADS = {EVERYTHING: "CPU offload", STATES: "CPU offload of the optimizer alone"}


def adaptation_name(stage: str, layout: Layout) -> str:
    """What is trained, for people: "QLoRA"."""
    return METHODS[stage].called(layout.adapts)


def _within_layers(mesh: Mesh) -> str:
    kinds = (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert))
    return "".join(f" x {name} parallel" for name, ranks in kinds if ranks > 1)
