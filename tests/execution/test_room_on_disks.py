"""A run that would fill a disk is refused before its rows are prepared, by what its launch script says it writes."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts
from test_prepare_data import chats, emitted, write

from recipec.units import GIB

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("base", ["lora-single", "pretrain", "sft-dpo"])
def test_the_launch_script_says_what_the_plan_expects(tmp_path: Path, base: str) -> None:
    done = good(tmp_path, BASES[base])
    (script,) = (text for path, text in texts(done).items() if path.startswith("launch/"))
    (said,) = re.findall(r'prepare_data\.py" --writes-gib (\S+) (\S+) (\S+) (\S+) #', script)
    found = [stage.needs.storage for stage in done.plan.stages]
    planned = [
        sum(disk.prepared_bytes for disk in found),
        sum(disk.dataset_cache_bytes - disk.prepared_bytes for disk in found),
        sum(disk.hub_cache_bytes for disk in found),
        sum(disk.checkpoints_bytes + disk.export_bytes for disk in found),
    ]
    assert [float(size) for size in said] == pytest.approx([size / GIB for size in planned], abs=0.051)
    assert 0 < planned[0] < planned[1]


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
