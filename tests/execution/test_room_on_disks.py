"""A run that would fill a disk is refused before its rows are prepared, by what its launch script says it writes."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, Tables, good, texts, with_key
from test_prepare_data import chats, emitted, write

from recipec.units import GIB

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("base", ["lora-single", "pretrain", "sft-dpo"])
def test_the_launch_script_says_what_the_plan_expects(tmp_path: Path, base: str) -> None:
    done = good(tmp_path, BASES[base])
    (script,) = (text for path, text in texts(done).items() if path.startswith("launch/"))
    said, what = re.findall(r'prepare_data\.py" --writes-gib (.*) # predicted: (.*)\n', script)[0]
    found = [stage.needs.storage for stage in done.plan.stages]
    planned = [
        sum(disk.prepared_bytes for disk in found),
        sum(disk.dataset_cache_bytes - disk.prepared_bytes for disk in found),
        sum(disk.hub_cache_bytes for disk in found),
        sum(disk.checkpoints_bytes + disk.export_bytes for disk in found),
    ]
    assert what == "data/, datasets, models, outputs/"
    assert [float(size) for size in said.split()] == pytest.approx([size / GIB for size in planned], abs=0.051)
    assert 0 < planned[0] < planned[1]


GEMMA = with_key(BASES["lora-single"], "model.name", "google/gemma-3-4b-it")
PACKED = with_key(BASES["qlora"], "hardware", {"gpu": "h100", "gpus_per_node": 2})
PACKED = with_key(PACKED, "train", {"adaptation": "qlora", "strategy": "fsdp"})


@pytest.mark.parametrize(
    ("recipe", "made"),
    [
        (GEMMA, ["text-part"]),
        (with_key(BASES["lora-single"], "model.new_tokens", ["<|new|>"]), ["extended-model"]),
        (with_key(GEMMA, "model.new_tokens", ["<|new|>"]), ["text-part", "extended-model"]),
        (PACKED, ["base-4bit"]),
    ],
    ids=["text part", "new tokens", "both", "packed"],
)
def test_what_scripts_make_of_the_model_is_written_into_the_bundle(
    tmp_path: Path, recipe: Tables, made: list[str]
) -> None:
    """In the bundle's folder, not in the cache of models; what is there already takes no more room."""
    done = good(tmp_path, recipe)
    disk, files = done.plan.stages[0].needs.storage, texts(done)
    (script,) = (text for path, text in files.items() if path.startswith("launch/"))
    (said,) = re.findall(r"--writes-gib (.*) # predicted: data/, datasets, models, outputs/, (.*)\n", script)
    sizes = [float(size) for size in said[0].split()]
    assert said[1] == ", ".join(f"{folder}/" for folder in made)
    assert sum(sizes[4:]) == pytest.approx((disk.made_bytes + disk.packed_bytes) / GIB, abs=0.11)
    assert sizes[2] == pytest.approx(disk.hub_cache_bytes / GIB, abs=0.051) and min(sizes[4:]) > 1
    assert sum(sizes) == pytest.approx(disk.total_bytes / GIB, abs=0.3)


def test_a_copy_of_the_model_that_is_there_takes_no_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(50))
    module = emitted(tmp_path, GEMMA, monkeypatch)
    monkeypatch.setattr(module, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**30))
    with pytest.raises(SystemExit, match=r"4\.0 GiB will be written below \S*text-part \(predicted\).*Free some\. "):
        module.check_room(0, 0, 0, 0, 4)
    with (tmp_path / "text-part/weights.safetensors").open("wb") as file:
        file.truncate(2 * 2**30)  # takes no space itself
    module.check_room(0, 0, 0, 0, 4)


@pytest.mark.parametrize(
    ("free", "written", "apart", "refused"),
    [
        (13, 0, False, ""),
        (
            11,
            0,
            False,
            r"12\.0 GiB will be written below .*data and .*cache and .*outputs \(predicted\), .* 11\.0 GiB free",
        ),
        (11, 2, False, ""),
        (8, 0, True, ""),
        (6, 0, True, r"7\.0 GiB will be written below \S*cache \(predicted\)"),
    ],
    ids=["room", "too small", "old checkpoints make room", "two disks", "one of two disks is too small"],
)
def test_a_disk_that_the_run_would_fill_is_refused_before_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, written: int, apart: bool, refused: str
) -> None:
    write(tmp_path / "chat.jsonl", chats(50))
    module = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    monkeypatch.setattr(module, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--writes-gib", "1", "7", "0", "4"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free * 2**30))
    (tmp_path / "outputs").mkdir()
    with (tmp_path / "outputs/old.safetensors").open("wb") as file:
        file.truncate(written * 2**30)  # takes no space itself
    known = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **given: disk_of(known(path, **given), apart and path.name == "cache")
    )
    prepared: list[str] = []
    monkeypatch.setattr(module, "prepare", lambda stage, *_: prepared.append(stage.name))
    if refused:
        with pytest.raises(SystemExit, match=refused):
            module.main()
    else:
        module.main()
    assert bool(prepared) is not bool(refused)


def disk_of(found: object, other: bool) -> object:
    return SimpleNamespace(st_dev=-1, st_mode=found.st_mode) if other else found
