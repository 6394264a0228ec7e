"""The GPU files: sourced, dated, sane, found by every alias, and free of the well-known traps."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from recipec import catalog
from recipec.catalog.gpus import gpu, gpu_from_vram, gpu_names, nearest_gpus

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
    ],
)
def test_a_gpu_is_found_as_people_write_it(written: str, name: str) -> None:
    assert gpu(written).name == name


@pytest.mark.parametrize("written", ["", "90", "gpu", "rtx", "cpu", "nvidia"])
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


def test_a_card_from_its_memory_alone_is_slower_than_the_real_ones() -> None:
    card = gpu_from_vram(24)
    real = [gpu(name) for name in gpu_names() if gpu(name).bf16 and gpu(name).memory_gib > 20]
    assert (card.name, card.memory_gib) == ("vram-24gib", 24.0)
    assert all(card.bf16_tflops <= other.bf16_tflops for other in real)
    assert all(card.bandwidth_gb_s <= other.bandwidth_gb_s for other in real)


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
