"""`recipec probe` before it measures, and what of a host a process may use."""

from __future__ import annotations

import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipec.cli import probe
from recipec.probe import disk, host

Usage = namedtuple("Usage", "total used free")


def run(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(probe.command, ["-o", str(folder / "node.toml"), *more])


@pytest.fixture
def measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "NEEDED", ())
    monkeypatch.setattr(probe, "_measured", lambda *_: {})


@pytest.mark.usefixtures("measures_nothing")
def test_a_file_that_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text("mine")
    refused = run(tmp_path)
    assert refused.exit_code == 2 and "exists" in refused.output and "--force" in refused.output
    assert (tmp_path / "node.toml").read_text() == "mine"
    assert run(tmp_path, "--force").exit_code == 0
    assert (tmp_path / "node.toml").read_text() != "mine"


@pytest.mark.usefixtures("measures_nothing")
def test_a_name_that_no_file_can_have_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    refused = CliRunner().invoke(probe.command, ["-o", str(tmp_path / ("a" * 300))])
    assert refused.exit_code == 2 and "file name too long" in refused.output and "bug" not in refused.output


@pytest.mark.usefixtures("measures_nothing")
def test_another_system_than_linux_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    refused = run(tmp_path)
    assert refused.exit_code == 2 and "probe needs Linux" in refused.output


def test_a_disk_that_is_too_full_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 1 << 40, 900 << 20))
    assert disk.measure(tmp_path) == {}
    assert capsys.readouterr().err == "  left out: disk: 900 MiB are free, 1024 are needed\n"


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight threads of four cores, in a control group without limits."""
    for thread in range(8):
        topology = tmp_path / f"cpu{thread}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{thread % 4},{thread % 4 + 4}\n")
    (tmp_path / "own").write_text("12:cpu:/old\n0::/pods/mine\n")
    (tmp_path / "pods" / "mine").mkdir(parents=True)
    (tmp_path / "pods" / "mine" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "pods" / "mine" / "memory.max").write_text("max\n")
    monkeypatch.setattr(host, "CPUS", tmp_path)
    groups = host.own_groups(tmp_path / "own", tmp_path)
    monkeypatch.setattr(host, "own_groups", lambda: groups)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: set(range(8)))
    return tmp_path


def test_threads_of_one_core_are_counted_once(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.cores() == 4
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 4, 1})
    assert host.cores() == 2


@pytest.mark.parametrize("group", ["pods", "pods/mine"])
def test_the_limits_of_a_container_hold(container: Path, group: str) -> None:
    unlimited = host.memory_gib()
    (container / group / "cpu.max").write_text("250000 100000\n")
    (container / group / "memory.max").write_text(f"{1 << 29}\n")
    assert host.cores() == 2
    assert host.memory_gib() == 0.5 < unlimited
