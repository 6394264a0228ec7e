"""`--restore FILE` writes that file, whatever holds up the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import actions, build, codes, tree

FILES = {"train.py": "one\ntwo\nthree\n", "prepare.py": "a\nb\nc\n", "eval.py": "x\ny\nz\n"}
NEW = {"train.py": "one\nnew\nthree\n", "prepare.py": "a\nB\nc\n", "eval.py": "x\nY\nz\n"}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A bundle in which train.py has the markers of a conflict, and prepare.py an edit."""
    folder = tmp_path / "out"
    build(folder, FILES)
    (folder / "train.py").write_text("one\nmine\nthree\n")
    build(folder, {**FILES, "train.py": NEW["train.py"]})
    (folder / "prepare.py").write_text("a\nb\nmine\n")
    assert "<<<<<<<" in (folder / "train.py").read_text()
    return folder


@pytest.mark.parametrize("files", [{**FILES, "train.py": NEW["train.py"]}, NEW])
def test_one_file_is_restored_while_another_has_markers(out: Path, files: dict[str, str]) -> None:
    before = tree(out)
    result = build(out, files, restore={"prepare.py"})
    assert (out / "prepare.py").read_text() == files["prepare.py"]
    changed = {path for path, content in tree(out).items() if before[path] != content}
    records = {".recipec/last/prepare.py", ".recipec/lock.json"}
    assert changed <= {"prepare.py", *records}, "the others stay as they are"
    assert actions(result) == {"prepare.py": "overwrite", "train.py": "conflict"}
    assert (codes(result), result.exit_code, result.written) == (["W0701"], 1, True)
    assert "only prepare.py was written" in result.diagnostics[0].title


def test_a_restored_file_is_no_edit_once_the_markers_are_gone(out: Path) -> None:
    build(out, NEW, restore={"prepare.py"})
    assert not build(out, NEW, restore={"prepare.py"}).written, "it is as it is built"
    (out / "train.py").write_text("one\nmine and new\nthree\n")
    result = build(out, NEW)
    assert result.exit_code == 0
    assert (actions(result)["prepare.py"], (out / "eval.py").read_text()) == ("unchanged", NEW["eval.py"])


def test_the_file_with_markers_can_be_restored_itself(out: Path) -> None:
    result = build(out, NEW, restore={"train.py"})
    assert (result.exit_code, (out / "train.py").read_text()) == (1, NEW["train.py"])
    assert "<<<<<<<" in (out / "prepare.py").read_text(), "the edit of another file meets the new build"


@pytest.mark.parametrize("how", [{"dry_run": True}, {"check": True}])
def test_what_would_be_restored_is_told_and_not_written(out: Path, how: dict[str, bool]) -> None:
    before = tree(out)
    result = build(out, NEW, restore={"prepare.py"}, **how)
    assert (tree(out), result.written, result.exit_code) == (before, False, 1)
    assert "a build would write only prepare.py" in result.diagnostics[0].title
