"""Folders that are not ours to write to are refused, with the names in the way, and stay as they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import build, codes, tree

FILES = {"train.py": "x\n", "configs/a.yaml": "a: 1\n"}


def note(result: object) -> str:
    return " ".join(result.diagnostics[0].notes)  # type: ignore[attr-defined]


def foreign_file(out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("mine")


def same_name(out: Path) -> None:
    out.mkdir()
    (out / "train.py").write_text("mine")


def folder_for_file(out: Path) -> None:
    (out / "train.py").mkdir(parents=True)


def is_a_file(out: Path) -> None:
    out.write_text("mine")


def is_a_link(out: Path) -> None:
    (out.parent / "elsewhere").mkdir()
    out.symlink_to("elsewhere")


def linked_folder(out: Path) -> None:
    build(out, {"train.py": "x\n"})
    (out.parent / "elsewhere").mkdir()
    (out / "configs").symlink_to("../elsewhere")


def linked_file(out: Path) -> None:
    build(out, {"other.py": "x\n"})
    (out.parent / "secret").write_text("x\n")
    (out / "train.py").symlink_to("../secret")


def linked_state(out: Path) -> None:
    out.mkdir()
    (out.parent / "elsewhere").mkdir()
    (out / ".recipec").symlink_to("../elsewhere")


def state_is_a_file(out: Path) -> None:
    out.mkdir()
    (out / ".recipec").write_text("")


def linked_records(out: Path) -> None:
    build(out, FILES)
    shutil.move(out / ".recipec/last", out.parent / "elsewhere")
    (out / ".recipec/last").symlink_to("../../elsewhere")


def linked_journal(out: Path) -> None:
    build(out, FILES)
    (out.parent / "elsewhere").mkdir()
    (out.parent / "elsewhere/journal.json").write_text("[]")
    (out / ".recipec/next").symlink_to("../../elsewhere")


def link_deep_in_the_records(out: Path) -> None:
    build(out, FILES)
    (out / ".recipec/last/configs/a.yaml").unlink()
    (out / ".recipec/last/configs/a.yaml").symlink_to("/etc/hostname")


def pipe_in_the_records(out: Path) -> None:
    build(out, FILES)
    os.mkfifo(out / ".recipec/last/pipe")


def file_for_the_last_build(out: Path) -> None:
    out.mkdir()
    (out / ".recipec").mkdir()
    (out / ".recipec/last").write_text("")


def folder_for_the_plan(out: Path) -> None:
    build(out, FILES)
    (out / ".recipec/plan.json").unlink()
    (out / ".recipec/plan.json").mkdir()


def linked_way_to_an_orphan(out: Path) -> None:
    build(out, FILES | {"old/a.txt": "a\n"})
    shutil.move(out / "old", out.parent / "elsewhere")
    (out / "old").symlink_to("../elsewhere")


def below_a_file(out: Path) -> None:
    build(out, {"train.py": "x\n"})
    (out / "configs").write_text("mine")


def new_file_in_the_way(out: Path) -> None:
    build(out, {"train.py": "x\n"})
    (out / "configs").mkdir()
    (out / "configs/a.yaml").write_text("mine")


CASES = [
    (foreign_file, "E0701", "thesis.tex"), (same_name, "E0701", "train.py"), (folder_for_file, "E0701", "train.py"),
    (is_a_file, "E0702", "is a file"), (is_a_link, "E0702", "symbolic link"), (linked_folder, "E0702", "symbolic link"),
    (linked_file, "E0702", "out/train.py"), (linked_state, "E0702", ".recipec"), (state_is_a_file, "E0702", ".recipec"),
    (below_a_file, "E0701", "configs/a.yaml"), (new_file_in_the_way, "E0701", "configs/a.yaml"),
    (linked_records, "E0704", "last is a symbolic link"), (linked_journal, "E0704", "next is a symbolic link"),
    (link_deep_in_the_records, "E0704", "last/configs/a.yaml is a symbolic link"),
    (pipe_in_the_records, "E0704", "last/pipe is neither"), (file_for_the_last_build, "E0704", "last is not a folder"),
    (folder_for_the_plan, "E0704", "plan.json is not a file"), (linked_way_to_an_orphan, "E0702", "old/a.txt"),
]  # fmt: skip


@pytest.mark.parametrize(("prepare", "code", "named"), CASES, ids=[case[0].__name__ for case in CASES])
@pytest.mark.parametrize("force", [False, True])
def test_refused(tmp_path: Path, prepare: Callable[[Path], None], code: str, named: str, force: bool) -> None:
    prepare(tmp_path / "out")
    before = tree(tmp_path)

    result = build(tmp_path / "out", FILES, force=force)
    assert (codes(result), result.exit_code) == ([code], 2)
    assert named in note(result) and "nothing was written" in note(result)
    assert tree(tmp_path) == before


def test_many_names_are_cut() -> None:
    from recipec.bundle.folder import foreign

    assert foreign("out", [f"f{i}" for i in range(20)]).notes == (
        "in the way: f0, f1, f10, f11, f12, f13, f14, f15 and 12 more; nothing was written",
    )


def test_the_very_same_files_are_taken_over(tmp_path: Path) -> None:
    build(tmp_path / "a", FILES)
    build(tmp_path / "b", FILES)
    shutil.rmtree(tmp_path / "b/.recipec")

    assert build(tmp_path / "b", FILES).exit_code == 0
    assert tree(tmp_path / "b") == tree(tmp_path / "a")


def test_relative_folder_and_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert build(Path("."), FILES).exit_code == 0
    assert build(Path("sub/../other"), FILES).exit_code == 0
    assert (tmp_path / "train.py").exists() and (tmp_path / "other/train.py").exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_damaged_lock_does_not_hand_the_folder_to_any_recipe(tmp_path: Path, force: bool) -> None:
    """It names the recipe of the bundle. Without it, or with --force, a build makes a new one."""
    build(tmp_path / "out", FILES)
    good, lock = tree(tmp_path), tmp_path / "out/.recipec/lock.json"
    lock.write_text("<<<<<<<")
    damaged = tree(tmp_path)
    if not force:
        refused = build(tmp_path / "out", FILES | {"train.py": "of another recipe"})
        assert (codes(refused), refused.exit_code) == (["E0704"], 2) and ".recipec/lock.json cannot" in note(refused)
        assert "lock.json and build again" in refused.diagnostics[0].help[0] and tree(tmp_path) == damaged
        lock.unlink()
    assert build(tmp_path / "out", FILES, force=force).exit_code == 0
    assert tree(tmp_path) == good


def test_a_file_that_is_too_large_to_be_compared_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, FILES)
    os.truncate(out / "train.py", 65 * 2**20)
    result = build(out, FILES)
    assert codes(result) == ["E0702"]
    assert f"{out}/train.py: it is larger than 64 MiB; nothing was written" in note(result)
    assert f"copy {out}/.recipec/last/train.py over it" in result.diagnostics[0].help[0]
    shutil.copy(out / ".recipec/last/train.py", out / "train.py")
    assert build(out, FILES).exit_code == 0
    os.truncate(out / ".recipec/last/train.py", 65 * 2**20)
    assert f"restore {out}/.recipec from" in build(out, FILES).diagnostics[0].help[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere; test_interrupted.py injects the errors")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert codes(build(tmp_path / "out", FILES)) == ["E0702"]
    finally:
        tmp_path.chmod(0o700)


def test_a_pipe_in_the_place_of_a_file_is_in_the_way_and_not_waited_for(tmp_path: Path) -> None:
    build(tmp_path / "out", FILES)
    path = next(iter(FILES))
    (tmp_path / "out" / path).unlink()
    os.mkfifo(tmp_path / "out" / path)

    result = build(tmp_path / "out", FILES)

    assert codes(result) == ["E0701"] and path in note(result)
