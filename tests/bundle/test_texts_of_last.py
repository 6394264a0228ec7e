"""The texts of the last build, from which edits are merged, are held to the digests of the lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import actions, build, codes, tree

from recipec.bundle.lock import changed_texts
from recipec.bundle.state import read_last

FILES = {"train.py": "one\ntwo\n\nthree\n", "old.py": "a\n"}
NEW = {"train.py": "one\ntwo\n\nTHREE\n", "old.py": "a\n"}
MINE = "mine\ntwo\n\nthree\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A bundle with an edit of train.py, of which a formatter has changed the text of the last build."""
    folder = tmp_path / "out"
    build(folder, FILES)
    (folder / "train.py").write_text(MINE)
    (folder / ".recipec/last/train.py").write_text(MINE)  # a merge would find no edit
    return folder


@pytest.mark.parametrize("how", [{}, {"dry_run": True}, {"check": True}, {"conflict": "keep"}, {"restore": {"old.py"}}])
def test_a_changed_text_is_refused_by_name(out: Path, how: dict[str, object]) -> None:
    before = tree(out)
    result = build(out, NEW, **how)
    assert (codes(result), result.exit_code, tree(out)) == (["E0704"], 2, before)
    (found,) = result.diagnostics
    assert f"{out}/.recipec/last/train.py is not the text of the last build" in found.notes[0]
    assert "version control" in found.help[0] and "--restore train.py" in found.help[1]


@pytest.mark.parametrize("how", [{"restore": {"train.py"}}, {"force": True}])
def test_the_ways_out_write_the_file_and_its_text(out: Path, how: dict[str, object]) -> None:
    """They merge nothing."""
    assert build(out, NEW, **how).exit_code == 0
    assert (out / "train.py").read_text() == (out / ".recipec/last/train.py").read_text() == NEW["train.py"]
    assert actions(build(out, NEW)) == dict.fromkeys(NEW, "unchanged")


def test_a_restored_text_is_merged_again(out: Path) -> None:
    (out / ".recipec/last/train.py").write_bytes(FILES["train.py"].replace("\n", "\r\n").encode())
    assert build(out, NEW).exit_code == 0, "the line ends of a checkout are no change"
    assert (out / "train.py").read_text() == "mine\ntwo\n\nTHREE\n"


def test_the_text_of_a_file_that_is_no_longer_emitted_is_held_to_its_digest(out: Path) -> None:
    """It decides whether the file is deleted."""
    (out / "old.py").write_text("mine\n")
    build(out, {"train.py": NEW["train.py"]}, force=True)
    assert (out / "old.py").exists()
    (out / ".recipec/last/old.py").write_text("mine\n")
    result = build(out, {"train.py": NEW["train.py"]})
    assert codes(result) == ["E0704"] and "delete" in result.diagnostics[0].help[0]
    (out / ".recipec/last/old.py").unlink()
    assert build(out, {"train.py": NEW["train.py"]}).exit_code == 0 and (out / "old.py").read_text() == "mine\n"


def test_what_a_build_with_open_markers_restores_is_the_text_of_the_lock(out: Path) -> None:
    (out / ".recipec/last/train.py").write_text(FILES["train.py"])
    (out / "train.py").write_text("<<<<<<< your edit\n||||||| last build\n=======\n>>>>>>> new build\n")
    result = build(out, NEW | {"old.py": "b\n"}, restore={"old.py"})
    assert codes(result) == ["W0701"] and (out / "old.py").read_text() == "b\n"
    last = read_last(out)
    assert last is not None and changed_texts(last) == []


def test_the_base_that_waits_for_an_edit_of_this_moment_is_the_text_of_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recipec.bundle import build as building

    out = tmp_path / "out"
    build(out, FILES)
    write = building.write_files

    def saved_meanwhile(*args: object) -> tuple[str, ...]:
        (out / "train.py").write_text(MINE)
        return write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "write_files", saved_meanwhile)
    build(out, NEW | {"old.py": "b\n"})
    monkeypatch.undo()
    assert (out / ".recipec/last/train.py").read_text() == FILES["train.py"]
    assert build(out, NEW | {"old.py": "b\n"}).exit_code == 0
    assert (out / "train.py").read_text() == "mine\ntwo\n\nTHREE\n"
