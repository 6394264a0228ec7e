"""The usual machines: for GPUs of the catalog, dated, sane, and the class by the number of GPUs."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from recipec import catalog
from recipec.catalog.gpus import gpu, gpu_names
from recipec.catalog.machines import PCIE_GB_S, machine

TABLE = tomllib.loads((Path(catalog.__file__).parent / "machines.toml").read_text(encoding="utf-8"))
FIGURES = {"host_memory_gib_per_gpu": (16, 512), "cores_per_gpu": (2, 64), "network_gbps": (1, 3200)}


@pytest.mark.parametrize("name", [name for name in TABLE if name != "cpu"])
def test_a_row_is_dated_and_sane(name: str) -> None:
    row, card = TABLE[name], gpu(name)
    assert card is not None and card.name == name
    assert date(2026, 11, 1) <= row["checked"] <= date.today()
    assert row["pcie_generation"] in PCIE_GB_S
    assert card.link != "pcie" or card.link_gb_s == pytest.approx(PCIE_GB_S[row["pcie_generation"]], rel=0.02)
    for part in ("one", "node"):
        for figure, (low, high) in FIGURES.items() if part in row else ():
            assert low <= row[part][figure] <= high
            seen = row[part]["machines"] and figure not in machine(name, 8 if part == "node" else 1).inferred
            assert seen or f"{part}.{figure}" in row["inferred"], "what nobody states is said to be inferred"


def test_the_number_of_gpus_decides_the_class() -> None:
    three, four = machine("h100", 3), machine("h100", 4)
    assert (three.network_gbps, four.network_gbps) == (25, 1600)
    assert "17 machine types, 2026-11" in four.basis("network_gbps")
    assert "similar machines" in machine("rtx-4090", 1).basis("network_gbps")


def test_every_gpu_has_its_slot() -> None:
    """What is written for a GPU of the catalog without one would be taken to be PCIe 3 unsaid."""
    assert set(gpu_names()) == TABLE.keys() - {"cpu"}
    slots = {name: machine(name, 8).pcie_gb_s for name in ("h800", "h20", "h100-nvl", "gb200", "b300")}
    assert set(slots.values()) == {machine("h100", 8).pcie_gb_s} == {PCIE_GB_S[5]}
    assert machine("a800-80gb", 8).pcie_gb_s == machine("a100-80gb", 8).pcie_gb_s == machine("a30", 8).pcie_gb_s


def test_a_gpu_with_a_slot_alone_has_no_figures() -> None:
    assert "h800" in gpu_names()
    assert machine("h800", 8).host_memory_gib_per_gpu is None
    assert machine("vram-24gib", 1).network_gbps is None
