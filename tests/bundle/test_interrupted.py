"""A build that dies or fails at any step leaves the old bundle or the new one to the next command, never a mixture.

The steps are what the interpreter itself reports: an audit hook in a forked child counts each operation that changes
the file system, and kills the child or fails the operation.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import build, tree

from recipec.bundle.build import WriteResult
from recipec.bundle.write import is_interrupted, recover

OLD = {"train.py": "one\ntwo\n", "launch/local.sh": "run\n", "old/a.txt": "a\n"}
NEW = {"train.py": "one\nnew\n", "launch/local.sh": "run\n", "configs/x.json": "{}\n"}
CHANGING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.copyfile", "shutil.rmtree"}
DONE, REFUSED, OTHER = 0, 7, 9  # exit statuses of a child


def audit(operation: Callable[[int], None]) -> None:
    """Call `operation` with a running number before everything that changes the file system."""
    count = 0

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in CHANGING or writes:
            count += 1
            operation(count)

    sys.addaudithook(hook)


def in_child(work: Callable[[], WriteResult]) -> int:
    """Run in a forked child; the exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = OTHER
        try:
            result = work()
            status = DONE if result.exit_code == 0 else REFUSED if result.exit_code == 2 else OTHER
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(step: int) -> Callable[[int], None]:
    return lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == step else None


def fail_at(step: int, forever: bool) -> Callable[[int], None]:
    def fail(count: int) -> None:
        if count == step or (forever and count > step):
            raise OSError(28, "No space left on device")

    return fail


def audited_build(out: Path, operation: Callable[[int], None]) -> Callable[[], WriteResult]:
    def work() -> WriteResult:
        audit(operation)
        return build(out, NEW)

    return work


def bundles(folder: Path, fresh: bool) -> tuple[dict, dict]:
    """The whole trees before and after: nothing or the old bundle, and the new one."""
    build(folder / "old", OLD)
    build(folder / "new", OLD)
    build(folder / "new", NEW)
    return {} if fresh else tree(folder / "old"), tree(folder / "new")


def prepared(folder: Path, fresh: bool) -> Path:
    folder.mkdir()
    if not fresh:
        build(folder / "out", OLD)
    return folder / "out"


@pytest.mark.parametrize("fresh", [True, False])
def test_killed_at_every_step(tmp_path: Path, fresh: bool) -> None:
    old, new = bundles(tmp_path, fresh)
    seen = []
    for step in range(1, 500):
        out = prepared(tmp_path / str(step), fresh)
        status = in_child(audited_build(out, kill_at(step)))
        if status == DONE:
            break
        assert status == -signal.SIGKILL
        if fresh:
            assert not out.exists() or tree(out) == new  # without any recovery
        recover(out)
        assert tree(out) in (old, new), f"step {step}"
        assert not is_interrupted(out) and [entry.name for entry in out.parent.iterdir()] in ([], ["out"])
        seen.append(tree(out) == new)
        assert build(out, NEW).exit_code == 0
        assert tree(out)["train.py"] == new["train.py"]
    assert status == DONE and step > 10
    assert fresh or (seen[0] is False and seen[-1] is True and seen == sorted(seen))


def test_killed_again_while_recovering(tmp_path: Path) -> None:
    old, new = bundles(tmp_path, False)
    for step in range(1, 80, 3):
        out = prepared(tmp_path / str(step), False)
        in_child(audited_build(out, kill_at(step)))
        for again in range(1, 100):

            def work(out: Path = out, again: int = again) -> WriteResult:
                audit(kill_at(again))
                recover(out)
                return WriteResult()

            if in_child(work) == DONE:
                break
        assert tree(out) in (old, new), f"step {step}"


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("forever", [False, True])
def test_failing_at_every_step(tmp_path: Path, fresh: bool, forever: bool) -> None:
    old, new = bundles(tmp_path, fresh)
    refused = 0
    for step in range(1, 500):
        out = prepared(tmp_path / str(step), fresh)
        status = in_child(audited_build(out, fail_at(step, forever)))
        assert status in (DONE, REFUSED), f"step {step}"
        if not forever:
            assert tree(out) == (old if status == REFUSED else new) or is_interrupted(out), f"step {step}"
        recover(out)
        assert tree(out) in (old, new), f"step {step}"
        refused += status == REFUSED
        if status == DONE and step > 100:
            break
    assert refused > 10


def test_a_file_that_cannot_be_placed_takes_the_build_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, _ = bundles(tmp_path, False)
    out = prepared(tmp_path / "x", False)
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target == out / "configs/x.json":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    result = build(out, NEW)
    assert result.diagnostics[0].notes == ("permission denied; nothing was written",)
    assert tree(out) == old and not is_interrupted(out)


def test_full_disk(tmp_path: Path) -> None:
    old, _ = bundles(tmp_path, False)
    out = prepared(tmp_path / "x", False)

    def work() -> WriteResult:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        return build(out, NEW | {"big.txt": "x" * 20_000})

    assert in_child(work) == REFUSED
    assert tree(out) == old and not is_interrupted(out)


def test_killed_at_random_times(tmp_path: Path) -> None:
    old, new = bundles(tmp_path, False)
    rng = random.Random(17)
    for case in range(40):
        out = prepared(tmp_path / str(case), False)
        child = os.fork()
        if child == 0:
            build(out, NEW)
            os._exit(0)
        time.sleep(rng.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        recover(out)
        assert tree(out) in (old, new)


def test_edits_made_between_the_kill_and_the_recovery_stay(tmp_path: Path) -> None:
    for step in range(1, 100):
        out = prepared(tmp_path / str(step), False)
        if in_child(audited_build(out, kill_at(step))) == DONE:
            break
        if (out / ".recipec/next").exists():
            (out / "train.py").write_text("mine\n")
            recover(out)
            assert (out / "train.py").read_text() == "mine\n"
    else:
        pytest.fail("the build never finished")


def test_check_and_dry_run_report_an_interrupted_build_and_leave_it(tmp_path: Path) -> None:
    out = prepared(tmp_path / "x", False)
    (out / ".recipec/next.tmp").mkdir()
    before = sorted(out.rglob("*"))

    assert build(out, OLD, check=True).exit_code == 1
    assert "interrupted" in build(out, OLD, dry_run=True).changes[0].note
    assert sorted(out.rglob("*")) == before
    assert build(out, OLD).exit_code == 0 and not is_interrupted(out)


def test_builds_at_the_same_time_take_turns(tmp_path: Path) -> None:
    out = prepared(tmp_path / "x", False)
    texts = [NEW | {"train.py": f"one\nbuild {number}\n"} for number in range(8)]
    children = []
    for files in texts:
        child = os.fork()
        if child == 0:
            os._exit(build(out, files).exit_code)
        children.append(child)

    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert (out / "train.py").read_bytes() == (out / ".recipec/last/train.py").read_bytes()
