"""A build that dies or fails at any step leaves the old bundle or the new one to the next command, never a mixture.

The steps are what the interpreter itself reports: an audit hook in a forked child counts each operation that changes
the file system, and kills the child or fails the operation.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest
from bundles import build, tree
from tiers import one_in, quick_where

from recipec.bundle.build import WriteResult
from recipec.bundle.write import DamagedJournal, exclusive, is_interrupted, recover

OLD = {"train.py": "one\ntwo\n", "launch/local.sh": "run\n", "old/a.txt": "a\n"}
NEW = {"train.py": "one\nnew\n", "launch/local.sh": "run\n", "configs/x.json": "{}\n"}
CHANGING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.copyfile", "shutil.rmtree"}
DONE, REFUSED, OTHER = 0, 7, 9  # exit statuses of a child


def audit(operation: Callable[[int], None], events: Collection[str] = CHANGING) -> None:
    """Call `operation` with a running number before everything that changes the file system."""
    count = 0

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in events or writes:
            count += 1
            operation(count)

    sys.addaudithook(hook)


def recovered(out: Path) -> None:
    """What the next build does first."""
    if is_interrupted(out):
        with exclusive(out):
            recover(out)


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
        recovered(out)
        assert tree(out) in (old, new), f"step {step}"
        assert not is_interrupted(out) and [entry.name for entry in out.parent.iterdir()] in ([], ["out"])
        seen.append(tree(out) == new)
        assert build(out, NEW).exit_code == 0
        assert tree(out)["train.py"] == new["train.py"]
    assert status == DONE and step > 10
    assert fresh or (seen[0] is False and seen[-1] is True and seen == sorted(seen))


@pytest.mark.parametrize("first", quick_where({1}, (1, 3, 5)))
def test_killed_again_while_recovering(tmp_path: Path, first: int) -> None:
    old, new = bundles(tmp_path, False)
    for step in range(first, 80, 6):
        out = prepared(tmp_path / str(step), False)
        in_child(audited_build(out, kill_at(step)))
        for again in range(1, 100):

            def work(out: Path = out, again: int = again) -> WriteResult:
                audit(kill_at(again))
                recovered(out)
                return WriteResult()

            if in_child(work) == DONE:
                break
        assert tree(out) in (old, new), f"step {step}"


@pytest.mark.parametrize(("fresh", "forever"), one_in(3, product((True, False), repeat=2)))
def test_failing_at_every_step(tmp_path: Path, fresh: bool, forever: bool) -> None:
    old, new = bundles(tmp_path, fresh)
    refused = 0
    for step in range(1, 500):
        out = prepared(tmp_path / str(step), fresh)
        status = in_child(audited_build(out, fail_at(step, forever)))
        assert status in (DONE, REFUSED), f"step {step}"
        if not forever:
            assert tree(out) == (old if status == REFUSED else new) or is_interrupted(out), f"step {step}"
        recovered(out)
        assert tree(out) in (old, new), f"step {step}"
        assert [entry.name for entry in out.parent.iterdir()] in ([], ["out"]), f"step {step}"
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
        recovered(out)
        assert tree(out) in (old, new)


def test_edits_made_between_the_kill_and_the_recovery_stay(tmp_path: Path) -> None:
    for step in range(1, 100):
        out = prepared(tmp_path / str(step), False)
        if in_child(audited_build(out, kill_at(step))) == DONE:
            break
        if (out / ".recipec/next").exists():
            (out / "train.py").write_text("mine\n")
            recovered(out)
            assert (out / "train.py").read_text() == "mine\n"
    else:
        pytest.fail("the build never finished")


def fingerprint(text: str) -> str:
    return sha256(text.encode()).hexdigest()


FOREIGN_JOURNALS = {
    "deletes above": [["../precious.txt", fingerprint("mine"), None]],
    "deletes at an absolute path": [["{above}/precious.txt", fingerprint("mine"), None]],
    "deletes above, by a way through the bundle": [["configs/../../precious.txt", fingerprint("mine"), None]],
    "writes above": [["../written.txt", None, fingerprint("theirs")]],
    "names no file": [["", None, fingerprint("theirs")]],
    "names what no file system takes": [["a\0b", None, None]],
    "too few": [["train.py"]],
    "too many": [["train.py", None, None, None]],
    "wrong types": [[1, 2, 3]],
    "no list": {"train.py": None},
}
DAMAGED_JOURNALS = {
    "empty": b"", "half": b'[["train.py", ', "binary": bytes(range(256)), "deep": b"[" * 100_000,
    **{name: json.dumps(entries).encode() for name, entries in FOREIGN_JOURNALS.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED_JOURNALS)
@pytest.mark.parametrize("folder", ["next", "undo"])
def test_a_journal_that_no_build_wrote_is_refused(tmp_path: Path, name: str, folder: str) -> None:
    out = prepared(tmp_path / "x", False)
    (out.parent / "precious.txt").write_text("mine")
    for source in ("new", "old"):
        (out / ".recipec" / folder / source).mkdir(parents=True)
    (out / ".recipec" / folder / "written.txt").write_text("theirs")
    journal = DAMAGED_JOURNALS[name].replace(b"{above}", str(out.parent).encode())
    (out / ".recipec" / folder / "journal.json").write_bytes(journal)
    before = tree(out.parent)

    for options in ({}, {"force": True}, {"check": True}, {"dry_run": True}):
        refused = build(out, NEW, **options)
        assert (refused.exit_code, [found.code for found in refused.diagnostics]) == (2, ["E0704"])
        assert f".recipec/{folder} " in refused.diagnostics[0].notes[0]
        assert f"delete {out}/.recipec/{folder} and build again" in refused.diagnostics[0].help[0]
        assert tree(out.parent) == before
    with pytest.raises(DamagedJournal):
        recovered(out)

    shutil.rmtree(out / ".recipec" / folder)
    assert build(out, NEW).exit_code == 0


def test_a_journal_is_not_followed_through_a_link(tmp_path: Path) -> None:
    out = prepared(tmp_path / "x", False)
    (out.parent / "elsewhere").mkdir()
    (out.parent / "elsewhere/precious.txt").write_text("mine")
    (out / "data").symlink_to("../elsewhere")
    (out / ".recipec/next").mkdir()
    journal = [["data/precious.txt", fingerprint("mine"), None]]
    (out / ".recipec/next/journal.json").write_text(json.dumps(journal))

    assert build(out, NEW).exit_code == 0
    assert (out.parent / "elsewhere/precious.txt").read_text() == "mine"


def test_a_link_where_a_new_folder_is_prepared_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".out.recipec-tmp").symlink_to("elsewhere")

    assert build(tmp_path / "out", NEW).exit_code == 2
    assert list((tmp_path / "elsewhere").iterdir()) == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["thesis.txt", "bundle/thesis.txt"])
def test_a_folder_that_no_build_made_is_refused_by_name_and_stays(tmp_path: Path, file: str) -> None:
    theirs = tmp_path / ".out.recipec-tmp" / file
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    for options in ({}, {"force": True}, {"check": True}, {"dry_run": True}):
        refused = build(tmp_path / "out", NEW, **options)
        assert (refused.exit_code, [found.code for found in refused.diagnostics]) == (2, ["E0702"])
        assert "`.out.recipec-tmp` beside it, and recipec did not make" in refused.diagnostics[0].notes[0]
        assert "move `.out.recipec-tmp` away" in refused.diagnostics[0].help[0]
        assert theirs.read_text() == "mine" and not (tmp_path / "out").exists()


def test_a_bundle_that_is_there_needs_no_name_beside_it(tmp_path: Path) -> None:
    build(tmp_path / "out", OLD)
    theirs = tmp_path / ".out.recipec-tmp" / "thesis.txt"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    (tmp_path / "out/.recipec/next.tmp").mkdir()
    assert build(tmp_path / "out", NEW).exit_code == 0
    assert theirs.read_text() == "mine" and not is_interrupted(tmp_path / "out")


def saved_at(step: int, file: Path, text: str, note: Path) -> Callable[[int], None]:
    """A user who saves `file` right before a step of the build, and leaves a note of it."""

    def save(count: int) -> None:
        if count == step:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            note.touch()

    return save


@pytest.mark.parametrize(("name", "text"), [("train.py", "mine\none\ntwo\n"), ("old/a.txt", "a\nmine\n")])
def test_what_is_saved_while_a_build_runs_stays_and_is_merged_by_the_next(tmp_path: Path, name: str, text: str) -> None:
    late = 0
    for step in range(1, 500):
        out = prepared(tmp_path / str(step), False)
        file, note = out / name, out.parent / "saved"
        save = saved_at(step, file, text, note)

        def work(out: Path = out, save: Callable[[int], None] = save) -> WriteResult:
            audit(save, CHANGING - {"os.rename", "os.remove"})  # the one step between the last look and the change
            return build(out, NEW)

        status = in_child(work)
        if not note.exists():
            break
        assert file.read_text() == text, f"step {step}"
        late += status == OTHER
        assert build(out, NEW).exit_code == 0
        merged = "mine\none\nnew\n" if status == OTHER and name == "train.py" else text
        assert file.read_text() == merged, f"step {step}"
    assert step > 20 and late > 5


def test_check_and_dry_run_report_an_interrupted_build_and_leave_it(tmp_path: Path) -> None:
    out = prepared(tmp_path / "x", False)
    (out / ".recipec/next.tmp").mkdir()
    before = sorted(out.rglob("*"))

    assert build(out, OLD, check=True).exit_code == 1
    assert "interrupted" in build(out, OLD, dry_run=True).changes[0].note
    assert sorted(out.rglob("*")) == before
    assert build(out, OLD).exit_code == 0 and not is_interrupted(out)


def can_lock(folder: Path) -> bool:
    """Whether no other process holds the lock of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_a_first_build_locks_the_folder_that_later_builds_lock(tmp_path: Path) -> None:
    out = tmp_path / "new/folder/out"
    for _ in ("before it is there", "after it is there"):
        with exclusive(out, creates=True):
            assert not can_lock(out.parent) and can_lock(tmp_path) and can_lock(tmp_path / "new")
            out.mkdir(exist_ok=True)
    assert can_lock(out.parent)


def test_a_lock_of_a_folder_that_was_taken_away_is_none(tmp_path: Path) -> None:
    out, moved = tmp_path / "new/out", tmp_path / "moved"

    def work() -> WriteResult:
        def take_away(event: str, _: object) -> None:
            if event == "fcntl.flock" and not moved.exists():
                out.parent.rename(moved)

        sys.addaudithook(take_away)
        with exclusive(out, creates=True):
            sole = moved.exists() and not can_lock(out.parent) and can_lock(moved)
        return WriteResult(exit_code=0 if sole else 2)

    assert in_child(work) == DONE


def test_a_first_build_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    def work() -> WriteResult:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        return build(tmp_path / "new/folder/out", NEW | {"big.txt": "x" * 20_000})

    assert in_child(work) == REFUSED
    assert list(tmp_path.iterdir()) == []


def test_first_builds_at_the_same_time_take_turns(tmp_path: Path) -> None:
    for case in range(10):
        out = tmp_path / str(case) / "new/folder/out"
        children = []
        for number in range(6):
            child = os.fork()
            if child == 0:
                os._exit(build(out, NEW | {"train.py": f"one\nbuild {number}\n"}).exit_code)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6
        assert (out / "train.py").read_bytes() == (out / ".recipec/last/train.py").read_bytes()


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
