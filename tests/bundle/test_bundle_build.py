"""What a build does with each file: one row of the table per test, and the promises that hold for all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import INPUTS, PLAN, actions, build, codes, rendered, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from recipec.bundle.build import write_bundle

FILES = {"train.py": "one\ntwo\nthree\n", "launch/local.sh": "run\n", "configs/ds.json": '{\n  "lr": 1,\n  "b": 2\n}\n'}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    assert build(tmp_path / "out", FILES).exit_code == 0
    return tmp_path / "out"


def changed(**texts: str) -> dict[str, str]:
    return FILES | {{"train": "train.py", "ds": "configs/ds.json"}[name]: text for name, text in texts.items()}


def test_creates_a_bundle_with_its_state(tmp_path: Path) -> None:
    result = build(tmp_path / "new/folder/out", FILES)

    assert actions(result) == dict.fromkeys(FILES, "create")
    files = tree(tmp_path / "new/folder/out")
    state = {".recipec/lock.json", ".recipec/plan.json", ".recipec/source_map.json"}
    assert set(files) == set(FILES) | {f".recipec/last/{path}" for path in FILES} | state
    assert [path for path, (_, executable) in files.items() if executable] == ["launch/local.sh"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_rebuild_does_nothing(out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    result = build(out, FILES)
    assert set(actions(result).values()) == {"unchanged"}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert build(out, FILES, check=True).exit_code == 0


def test_overwrites_what_was_not_edited(out: Path) -> None:
    assert actions(build(out, changed(train="new\n")))["train.py"] == "overwrite"
    assert (out / "train.py").read_text() == "new\n"


def test_keeps_an_edit_when_the_build_is_the_same(out: Path) -> None:
    (out / "train.py").write_text("mine\n")

    assert actions(build(out, FILES))["train.py"] == "keep-user-edit"
    assert (out / "train.py").read_text() == "mine\n"
    assert build(out, FILES, check=True).exit_code == 0


def test_merges_an_edit_with_a_new_build(out: Path) -> None:
    (out / "train.py").write_text("one\ntwo\nthree\nmine\n")

    result = build(out, changed(train="new\none\ntwo\nthree\n"))
    assert (actions(result)["train.py"], result.exit_code) == ("merge", 0)
    assert (out / "train.py").read_text() == "new\none\ntwo\nthree\nmine\n"
    assert actions(build(out, changed(train="new\none\ntwo\nthree\n")))["train.py"] == "keep-user-edit"


def test_conflict_writes_markers_and_waits_for_the_user(out: Path) -> None:
    (out / "train.py").write_text("one\nmine\nthree\n")
    result = build(out, changed(train="one\nnew\nthree\n"))

    assert (actions(result)["train.py"], codes(result), result.exit_code) == ("conflict", ["W0701"], 1)
    marked = (out / "train.py").read_text()
    assert marked.startswith("one\n<<<<<<< your edit\nmine\n") and marked.endswith(">>>>>>> new build\nthree\n")

    before = tree(out)
    later = build(out, changed(train="one\nnewer\nthree\n", ds="{}\n"))
    assert (later.exit_code, codes(later)) == (1, ["W0701"])
    assert tree(out) == before

    (out / "train.py").write_text("one\nmine and new\nthree\n")
    assert build(out, changed(train="one\nnew\nthree\n")).exit_code == 0
    assert (out / "train.py").read_text() == "one\nmine and new\nthree\n"


def test_conflict_keep_keeps_the_edit(out: Path) -> None:
    (out / "train.py").write_text("mine\n")

    result = build(out, changed(train="new\n"), conflict="keep")
    assert (actions(result)["train.py"], codes(result), result.exit_code) == ("conflict", ["W0701"], 0)
    assert (out / "train.py").read_text() == "mine\n"


def test_conflict_fail_writes_nothing(out: Path) -> None:
    (out / "train.py").write_text("mine\n")
    before = tree(out)

    result = build(out, changed(train="new\n", ds="{}\n"), conflict="fail")
    assert (codes(result), result.exit_code) == (["W0701"], 1)
    assert tree(out) == before


def test_force_gives_up_edits_and_deletions_but_not_foreign_files(out: Path) -> None:
    (out / "train.py").write_text("mine\n")
    (out / "launch/local.sh").unlink()
    (out / "notes.txt").write_text("mine\n")

    result = build(out, FILES, force=True)
    assert actions(result)["train.py"] == "overwrite" and actions(result)["launch/local.sh"] == "create"
    assert (out / "train.py").read_text() == FILES["train.py"]
    assert (out / "notes.txt").read_text() == "mine\n"
    assert codes(build(out, FILES | {"notes.txt": "ours\n"}, force=True)) == ["E0701"]


def test_json_is_merged_by_key_and_keeps_the_layout(out: Path) -> None:
    (out / "configs/ds.json").write_text('{\n    "lr": 5,\n  "b": 2\n}\n')

    assert actions(build(out, changed(ds='{\n  "lr": 1,\n  "b": 3\n}\n')))["configs/ds.json"] == "merge"
    assert json.loads((out / "configs/ds.json").read_text()) == {"lr": 5, "b": 3}


def test_json_in_conflict_stays_with_the_new_build_beside_it(out: Path) -> None:
    (out / "configs/ds.json").write_text('{"lr": 5}\n')
    new = '{\n  "lr": 7,\n  "b": 2\n}\n'

    result = build(out, changed(ds=new))
    assert (actions(result)["configs/ds.json"], result.exit_code) == ("conflict", 1)
    assert (out / "configs/ds.json").read_text() == '{"lr": 5}\n'
    assert (out / "configs/ds.json.new").read_text() == new
    assert build(out, changed(ds=new)).exit_code == 0


def own_file(beside: Path) -> None:
    beside.write_text("mine\n")


def own_folder(beside: Path) -> None:
    beside.mkdir()


def own_link(beside: Path) -> None:
    beside.symlink_to("../../precious.txt")


@pytest.mark.parametrize("own", [own_file, own_folder, own_link])
def test_the_new_build_is_not_put_over_a_file_of_the_users(out: Path, own: Callable[[Path], None]) -> None:
    beside = out / "configs/ds.json.new"
    own(beside)
    (out.parent / "precious.txt").write_text("mine\n")
    (out / "configs/ds.json").write_text('{"lr": 5}\n')

    for number in (7, 8):  # the second takes the place of the first
        new = f'{{\n  "lr": {number},\n  "b": 2\n}}\n'
        result = build(out, changed(ds=new))
        assert (out / "configs/ds.json.new2").read_text() == new
        assert result.changes[2].note.endswith(": yours are kept, the new build is in configs/ds.json.new2")
        assert beside.is_dir() or beside.read_text() == "mine\n"
    assert (out.parent / "precious.txt").read_text() == "mine\n"
    assert sorted(path.name for path in (out / "configs").iterdir()) == ["ds.json", "ds.json.new", "ds.json.new2"]


@pytest.mark.parametrize("conflict", ["markers", "keep"])
def test_a_conflict_loses_nothing_that_only_the_new_build_changed(out: Path, conflict: str) -> None:
    (out / "train.py").write_text("one\nmine\nthree\n")
    (out / "configs/ds.json").write_text('\ufeff{\n  "lr": 5,\n  "b": 2\n}\n')
    new = changed(train="one\nnew\nthree\nfour\n", ds='{\n  "lr": 7,\n  "b": 3\n}\n')

    assert build(out, new, conflict=conflict).exit_code == (conflict == "markers")
    assert json.loads((out / "configs/ds.json").read_text()) == {"lr": 5, "b": 3}
    assert (out / "configs/ds.json.new").exists() is (conflict == "markers")
    found = (out / "train.py").read_text()
    assert found.endswith("three\nfour\n") and (found == "one\nmine\nthree\nfour\n") is (conflict == "keep")


def test_json_that_cannot_be_read_stays_with_the_new_build_beside_it(out: Path) -> None:
    (out / "configs/ds.json").write_text('{"lr": NaN}\n')
    new = '{\n  "lr": 7,\n  "b": 2\n}\n'

    kept = build(out, changed(ds=new), conflict="keep", dry_run=True)
    assert "not JSON that can be merged (Out of range float values" in kept.changes[2].note
    result = build(out, changed(ds=new))
    assert (actions(result)["configs/ds.json"], result.exit_code, codes(result)) == ("conflict", 1, ["W0701"])
    assert (out / "configs/ds.json").read_text() == '{"lr": NaN}\n'
    assert (out / "configs/ds.json.new").read_text() == new
    assert build(out, changed(ds=new)).exit_code == 0


def test_deleted_stays_deleted_and_is_told_once(out: Path) -> None:
    (out / "train.py").unlink()

    first, second = build(out, FILES), build(out, changed(train="new\n"))
    assert [actions(result)["train.py"] for result in (first, second)] == ["stays-deleted"] * 2
    assert [bool(result.changes[0].note) for result in (first, second)] == [True, False]
    assert not (out / "train.py").exists()
    assert build(out, changed(train="new\n"), check=True).exit_code == 0


def test_orphan_is_deleted_when_untouched(out: Path) -> None:
    only = {"train.py": FILES["train.py"]}

    assert actions(build(out, only))["configs/ds.json"] == "delete"
    assert not (out / "configs").exists() and not (out / ".recipec/last/configs").exists()
    assert set(actions(build(out, only))) == {"train.py"}


def test_edited_orphan_is_kept_and_merges_when_it_comes_back(out: Path) -> None:
    (out / "train.py").write_text("one\ntwo\nthree\nmine\n")
    rest = {path: text for path, text in FILES.items() if path != "train.py"}

    assert [actions(build(out, rest))["train.py"] for _ in range(2)] == ["keep-orphan"] * 2
    assert build(out, rest, check=True).exit_code == 0
    assert actions(build(out, changed(train="new\none\ntwo\nthree\n")))["train.py"] == "merge"
    assert (out / "train.py").read_text() == "new\none\ntwo\nthree\nmine\n"


def test_an_edited_orphan_names_the_file_that_took_its_place(out: Path) -> None:
    """As when a bundle of two stages becomes one of one."""
    (out / "train.py").write_text("one\ntwo\nthree\nmine\n")
    moved = {f"stages/{path}" if path == "train.py" else path: text for path, text in FILES.items()}
    (note,) = [change.note for change in build(out, moved).changes if change.path == "train.py"]
    assert note.endswith("kept because you edited it; your edits are not in stages/train.py")


def test_lost_executable_bit_is_set_again(out: Path) -> None:
    (out / "launch/local.sh").chmod(0o640)

    assert build(out, FILES, check=True).exit_code == 1
    assert actions(build(out, FILES))["launch/local.sh"] == "overwrite"
    assert (out / "launch/local.sh").stat().st_mode & 0o777 == 0o750
    assert build(out, FILES, check=True).exit_code == 0


def test_the_mode_of_an_overwritten_file_stays(out: Path) -> None:
    (out / "train.py").chmod(0o700)
    build(out, changed(train="new\n"))
    assert (out / "train.py").stat().st_mode & 0o777 == 0o700


def test_line_ends_of_another_system_are_no_edit(out: Path) -> None:
    (out / "train.py").write_bytes(FILES["train.py"].replace("\n", "\r\n").encode())
    assert actions(build(out, FILES))["train.py"] == "unchanged"
    assert actions(build(out, changed(train="new\n")))["train.py"] == "overwrite"


@pytest.mark.parametrize(
    ("mine", "new", "now"),
    [
        (b"one\r\ntwo\r\nthree\r\n", "new\n", b"new\r\n"),
        (b"one\r\ntwo\r\nthree\r\nmine\r\n", "new\none\ntwo\nthree\n", b"new\r\none\r\ntwo\r\nthree\r\nmine\r\n"),
        (b"one\r\ntwo\r\nthree\nmine\r\n", "new\none\ntwo\nthree\n", b"new\r\none\r\ntwo\r\nthree\r\nmine\r\n"),
        (b"one\ntwo\nthree\nmine\r\n", "new\none\ntwo\nthree\n", b"new\none\ntwo\nthree\nmine\n"),
    ],
    ids=["overwritten", "merged", "mostly of Windows", "mostly not of Windows"],
)
def test_line_ends_are_kept(out: Path, mine: bytes, new: str, now: bytes) -> None:
    (out / "train.py").write_bytes(mine)
    assert build(out, changed(train=new)).exit_code == 0
    assert (out / "train.py").read_bytes() == now
    assert build(out, changed(train=new), check=True).exit_code == 0


def test_a_conflict_keeps_line_ends_and_json_does_too(out: Path) -> None:
    (out / "train.py").write_bytes(b"one\r\nmine\r\nthree\r\n")
    (out / "configs/ds.json").write_bytes(b'{\r\n  "lr": 5,\r\n  "b": 2\r\n}\r\n')
    build(out, changed(train="one\nnew\nthree\n", ds='{\n  "lr": 1,\n  "b": 3\n}\n'))

    assert (out / "train.py").read_bytes().startswith(b"one\r\n<<<<<<< your edit\r\nmine\r\n")
    assert (out / "configs/ds.json").read_bytes() == b'{\r\n  "lr": 5,\r\n  "b": 3\r\n}\r\n'


@pytest.mark.parametrize("own", [b"", b"mine\n"])
@pytest.mark.parametrize("new", ["run\n", "new\nrun\n"])
def test_a_script_that_no_shell_runs_is_stale_and_made_one_that_runs(out: Path, own: bytes, new: str) -> None:
    script = out / "launch/local.sh"
    script.write_bytes(b"run\r\n" + own)
    files = FILES | {"launch/local.sh": new}

    assert build(out, files, check=True).exit_code == 1
    assert build(out, files).exit_code == 0
    assert script.read_bytes() == new.encode() + own
    assert build(out, files, check=True).exit_code == 0


def test_an_edit_that_is_not_utf8_survives(out: Path) -> None:
    (out / "train.py").write_bytes(b"one\ntwo\nthree\n# caf\xe9\n")

    assert actions(build(out, changed(train="new\none\ntwo\nthree\n")))["train.py"] == "merge"
    assert (out / "train.py").read_bytes() == b"new\none\ntwo\nthree\n# caf\xe9\n"


@pytest.mark.parametrize("mode", ["dry_run", "check"])
@pytest.mark.parametrize("exists", [True, False])
def test_dry_run_and_check_write_nothing(tmp_path: Path, mode: str, exists: bool) -> None:
    if exists:
        build(tmp_path / "out", FILES)
        (tmp_path / "out/train.py").write_text("mine\n")
    before = tree(tmp_path)

    result = build(tmp_path / "out", changed(train="new\n", ds="{}\n"), **{mode: True})
    assert tree(tmp_path) == before
    assert (tmp_path / "out").exists() == exists
    assert result.changes
    assert result.exit_code == (1 if mode == "check" or exists else 0)  # an edit in conflict is 1 either way


@pytest.mark.parametrize("folder", ["outputs", "data"])
def test_the_users_files_are_never_touched(out: Path, folder: str) -> None:
    (out / folder).mkdir()
    (out / folder / "own.bin").write_bytes(b"\0\1")

    build(out, {"train.py": "x\n"})
    build(out, {}, force=True)
    assert (out / folder / "own.bin").read_bytes() == b"\0\1"


edits = st.lists(st.sampled_from(["one\n", "two\n", "three\n", "mine\n", "own\n"]), max_size=6).map("".join)
news = st.lists(st.sampled_from(["one\n", "two\n", "three\n", "new\n", "fresh\n"]), max_size=6).map("".join)


@settings(max_examples=60)
@given(mine=edits | st.none(), new=news | st.none())
def test_no_edit_is_ever_lost_and_a_rebuild_settles(mine: str | None, new: str | None) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        build(folder / "out", FILES)
        target = folder / "out/train.py"
        target.unlink() if mine is None else target.write_text(mine)
        files = {path: text for path, text in (FILES | {"train.py": new}).items() if text is not None}

        result = build(folder / "out", files)
        now = target.read_text() if target.exists() else None
        if mine is None:
            assert now is None
        elif mine != FILES["train.py"]:
            assert now is not None and all(line in now for line in mine.splitlines() if line in ("mine", "own"))
        assert build(folder / "out", files, check=True).exit_code == result.exit_code
    finally:
        shutil.rmtree(folder)


def test_emitted_paths_stay_inside(tmp_path: Path) -> None:
    for path in ("/etc/x", "../x", "a/../../x", "./x", "a//b", ".recipec/lock.json", "", "a\\b"):
        with pytest.raises(AssertionError):
            build(tmp_path / "out", {path: "x"})
    with pytest.raises(AssertionError):
        build(tmp_path / "out", {"a": "x", "a/b": "x"})
    assert not os.listdir(tmp_path)


def test_another_recipes_bundle_is_not_built_over(tmp_path: Path) -> None:
    out, files = tmp_path / "out", [rendered("a.txt", "one\n")]
    write_bundle(out, files, PLAN, replace(INPUTS, name="billing"))
    (out / "a.txt").write_text("mine\n")
    before = tree(out)

    refused = write_bundle(out, files, PLAN, replace(INPUTS, name="sales"))
    assert (codes(refused), refused.exit_code) == (["E0703"], 2)
    assert "billing" in refused.diagnostics[0].title
    assert tree(out) == before
    assert write_bundle(out, files, PLAN, replace(INPUTS, name="billing")).exit_code == 0
    assert write_bundle(out, files, PLAN, replace(INPUTS, name="sales"), force=True).exit_code == 0
    assert (out / "a.txt").read_text() == "one\n"


def test_a_dry_run_does_not_say_that_files_are_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, {"a.txt": "one\n", "b.txt": "one\n"})
    (out / "a.txt").write_text("mine\n")
    new = {"a.txt": "two\n", "b.txt": "two\n"}
    assert "a build would write all other files" in build(out, new, dry_run=True).diagnostics[0].title
    assert "all other files were written" in build(out, new).diagnostics[0].title
