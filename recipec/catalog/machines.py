"""The machine that a GPU usually comes in: what is taken for facts that a recipe does not state."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

_FILE = Path(__file__).parent / "machines.toml"
FULL_NODE = 4  # GPUs from which on a machine is a whole server rather than a part of one
PCIE_GB_S = {3: 16.0, 4: 32.0, 5: 63.0}  # 16 lanes, one direction, by generation
UNKNOWN_PCIE = 3  # of a card that is known by its memory alone: the oldest that the catalog's cards have


class Machine(Struct, frozen=True):
    """What a node with one kind of GPU has at least in three of four offers; None where the table has no figure."""

    host_memory_gib_per_gpu: float | None
    cores_per_gpu: int | None  # physical cores
    network_gbps: float | None  # of the node
    pcie_gb_s: float  # of one GPU to host memory, peak of one direction
    machines: int  # types that were looked at
    inferred: tuple[str, ...]  # figures that none of them states
    checked: str

    def basis(self, name: str) -> str:
        """Where the figure `name` is from, in a few words."""
        if name in self.inferred or not self.machines:
            return f"of similar machines, {self.checked}"
        return f"a low figure of {self.machines} machine types, {self.checked}"


def machine(gpu: str, gpus_per_node: int) -> Machine:
    """The usual machine with so many GPUs called `gpu`; one without figures where none is known."""
    entry, part = _table().get(gpu, {}), "node" if gpus_per_node >= FULL_NODE else "one"
    figures = entry.get(part, {})
    inferred = (name.partition(".") for name in entry.get("inferred", ()))
    return Machine(
        host_memory_gib_per_gpu=figures.get("host_memory_gib_per_gpu"),
        cores_per_gpu=figures.get("cores_per_gpu"),
        network_gbps=figures.get("network_gbps"),
        pcie_gb_s=PCIE_GB_S[entry.get("pcie_generation", UNKNOWN_PCIE)],
        machines=figures.get("machines", 0),
        inferred=tuple(name for of, _, name in inferred if of == part),
        checked=f"{entry['checked']:%Y-%m}" if entry else "",
    )


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
