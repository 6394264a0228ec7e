"""The GPU files: sourced, dated, sane, found by every alias, and free of the well-known traps."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from recipec import catalog
from recipec.catalog.gpus import gpu, gpu_from_vram, gpu_names, nearest_gpus
from recipec.estimate.kernels import MATMUL_SHARE

FILES = sorted((Path(catalog.__file__).parent / "gpus").glob("*.toml"))


def test_there_are_enough_gpus_named_like_their_files() -> None:
    assert len(FILES) >= 22
    assert set(gpu_names()) == {path.stem for path in FILES}


@pytest.mark.parametrize("name", gpu_names())
def test_the_numbers_are_sourced_and_sane(name: str) -> None:
    card = gpu(name)
    assert card.source and card.memory_note
    assert date(2026, 11, 1) <= card.checked <= date.today()
    assert card.vendor in ("nvidia", "amd")
    assert card.kind in ("consumer", "workstation", "datacentre")
    assert card.link in ("pcie", "nvlink", "infinity-fabric")
    assert 0.85 < card.memory_gib / card.memory_gb <= 1.0
    assert 200 <= card.bandwidth_gb_s <= 8000
    assert 20 <= card.fp16_tflops <= 2500
    assert 16 <= card.link_gb_s <= 900
    assert all(getattr(card, field) is not None for field in card.unverified)


@pytest.mark.parametrize("name", gpu_names())
def test_precision_follows_the_generation(name: str) -> None:
    card = gpu(name)
    modern = card.capability is None or card.capability >= 8.0
    assert (card.vendor == "amd") == (card.capability is None)
    assert card.bf16 == (card.bf16_tflops is not None) == card.flash_attention == modern


def test_names_and_aliases_are_unique_and_found() -> None:
    entries = [tomllib.loads(path.read_text(encoding="utf-8")) for path in FILES]
    keys = [(key, entry["name"]) for entry in entries for key in (entry["name"], *entry["aliases"])]
    assert len(dict(keys)) == len(keys)
    assert [gpu(key).name for key, _ in keys] == [name for _, name in keys]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("a100", "a100-80gb"),
        ("h100-80gb-sxm", "h100"),
        ("Tesla_T4", "t4"),
        ("AMD Instinct MI300X", "mi300x"),
        ("H100 NVL", "h100-nvl"),
        ("NVIDIA H100 NVL 94GB", "h100-nvl"),
        ("NVIDIA L40S-48GB PCIe", "l40s"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("A6000 Ada", "rtx-6000-ada"),
        ("NVIDIA H200 SXM5 GPU", "h200"),
        ("MI300X OAM", "mi300x"),
        ("NVIDIA B300 SXM6 AC", "b300"),
    ],
)
def test_a_gpu_is_found_as_people_write_it(written: str, name: str) -> None:
    assert gpu(written).name == name


@pytest.mark.parametrize(
    "written",
    [
        "RTX 4090 Laptop GPU",
        "RTX 4090 48GB",
        "H200 PCIe",
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "L40 SXM",
    ],
)
def test_a_variant_that_the_catalog_does_not_have_is_not_taken_for_another(written: str) -> None:
    """Its memory, link or clock is another one."""
    assert gpu(written) is None


@pytest.mark.parametrize("written", ["", "90", "gpu", "rtx", "cpu", "nvidia", "80gb", "sxm"])
def test_what_is_not_a_gpu_finds_nothing(written: str) -> None:
    assert gpu(written) is None


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("rtx-4090", 165.2), ("a100-80gb", 312), ("h100", 989.4), ("l4", 121), ("l40s", 362.05), ("mi300x", 1307.4)],
)
def test_rates_are_dense_matrix_rates(name: str, tflops: float) -> None:
    """Neither the vector rate (82.6 for an RTX 4090) nor the rate with sparsity (242 for an L4)."""
    assert gpu(name).bf16_tflops == tflops


@pytest.mark.parametrize("name", ["t4", "v100-16gb", "v100-32gb"])
def test_cards_before_ampere_have_no_bf16(name: str) -> None:
    assert (gpu(name).bf16, gpu(name).flash_attention) == (False, False)


@pytest.mark.parametrize("memory", [6, 8, 12, 16, 24, 48, 80, 1000])
def test_a_card_from_its_memory_alone_is_no_faster_than_the_real_ones(memory: int) -> None:
    """An RTX 3060 is the slowest with 12 GB; 70 TFLOPS of an A10G would be three times its rate."""
    card = gpu_from_vram(memory)
    known = [found for found in map(gpu, gpu_names()) if found.bf16 and found.vendor == "nvidia"]
    most = max(found.memory_gb for found in known)
    real = [found for found in known if found.memory_gb >= min(memory, most)]
    assert (card.name, card.memory_gib) == (f"vram-{memory}gib", float(memory))
    assert card.bf16_tflops == min(found.bf16_tflops for found in real)
    assert card.bandwidth_gb_s == min(found.bandwidth_gb_s for found in real)
    named = {found.name for found in real if f" as {found.name} and " in card.source}
    assert named and min(gpu(name).bf16_tflops for name in named) == card.bf16_tflops


@pytest.mark.parametrize(
    ("written", "name"),
    [("rtx4090", "rtx-4090"), ("RTX 4090", "rtx-4090"), ("a10080gb", "a100-80gb"), ("NVIDIA-A100 80GB", "a100-80gb")],
)
def test_a_name_is_found_with_and_without_separators(written: str, name: str) -> None:
    found = gpu(written)
    assert found
    assert found.name == name


def test_no_two_gpus_are_called_the_same_without_separators() -> None:
    called = [name.replace("-", "") for path in FILES for name in _names(tomllib.loads(path.read_text()))]
    assert len(called) == len(set(called))


def _names(entry: dict) -> set[str]:
    return {name.replace("-", "") for name in (entry["name"], *entry["aliases"])}


def test_an_alias_is_suggested_by_the_name_of_its_gpu() -> None:
    assert nearest_gpus("a100-sxm4-80g")[0] == "a100-80gb"
    assert len(set(nearest_gpus("h100"))) == len(nearest_gpus("h100"))


@pytest.mark.parametrize("name", gpu_names())
def test_the_generation_of_every_card_has_a_rate(name: str) -> None:
    """An entry that names a compute capability is not estimated like an unknown card."""
    capability = gpu(name).capability
    assert capability is None or capability in MATMUL_SHARE


@pytest.mark.parametrize("name", gpu_names())
def test_a_bridge_has_a_rate_and_a_source_and_is_of_a_card_in_a_slot(name: str) -> None:
    card = gpu(name)
    assert bool(card.bridge_gb_s) is bool(card.bridge_source)
    assert not card.bridge_gb_s or (
        card.link == "pcie" and card.vendor == "nvidia" and card.bridge_gb_s > card.link_gb_s
    )
    assert "read 2026-11" in card.bridge_source or not card.bridge_gb_s or "bridge_gb_s" in card.unverified


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("h100", {"nvlink", "pcie"}),
        ("rtx-3090", {"nvlink", "pcie"}),
        ("rtx-4090", {"pcie"}),
        ("l40s", {"pcie"}),
        ("mi300x", {"infinity-fabric", "pcie"}),
    ],
)
def test_what_may_lie_between_cards(name: str, links: set[str]) -> None:
    assert set(gpu(name).links) == links
    assert len(gpu_from_vram(24).links) == 3
