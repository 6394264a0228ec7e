"""Commands end, also those that do not want to, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recipec.verify.process import STALE_SECONDS, clean_environment, drop_stale_locks, run_command


def run(script: str, folder: Path, limit_seconds: float = 20.0):
    environment = clean_environment(folder)
    command = ["bash", "-c", script]
    return run_command(command, folder=folder, environment=environment, log=folder / "log", limit_seconds=limit_seconds)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


def test_the_output_and_the_exit_code_are_kept(tmp_path: Path) -> None:
    outcome = run("echo out; echo err >&2; exit 3", tmp_path)
    assert (outcome.code, outcome.ok, outcome.text()) == (3, False, "out\nerr\n")
    assert "exit code 3" in outcome.tail()


def test_only_the_last_lines_are_shown(tmp_path: Path) -> None:
    assert run("seq 100", tmp_path).tail(3).endswith("\n98\n99\n100")


def test_a_command_is_stopped_at_its_limit_with_all_it_started(tmp_path: Path) -> None:
    script = "sleep 77 & echo $! >> pids; setsid sleep 77 & echo $! >> pids; wait"
    outcome = run(script, tmp_path, 1.5)
    assert outcome.code is None
    assert "time limit" in outcome.tail()
    assert not [pid for pid in (tmp_path / "pids").read_text().split() if alive(int(pid))]


def test_what_a_finished_command_left_running_is_ended(tmp_path: Path) -> None:
    assert run("sleep 77 & echo $! > pid; sleep 1", tmp_path).ok
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    run("trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done", tmp_path, 1.0)
    assert not alive(int((tmp_path / "pid").read_text()))


def test_the_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    text = run("env", tmp_path).text()
    assert "secret" not in text
    assert "PYTHONPATH" not in text


def test_only_old_locks_are_removed(tmp_path: Path) -> None:
    lock = tmp_path / "cpu_adam" / "lock"
    lock.parent.mkdir()
    lock.touch()
    moment = lock.stat().st_mtime
    assert drop_stale_locks(tmp_path, moment + STALE_SECONDS - 1) == []
    assert drop_stale_locks(tmp_path, moment + STALE_SECONDS + 1) == [lock]
    assert not lock.exists()
