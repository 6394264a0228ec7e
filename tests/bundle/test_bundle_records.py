"""The lock and the source map: deterministic, and right about lines that the user moved or edited."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from bundles import INPUTS, PLAN, build, rendered, tree

from recipec import __version__
from recipec.bundle.lock import LockInputs, lock_text
from recipec.bundle.source_map import Origin, ids_at, load
from recipec.bundle.state import read_lock

TEXT = "alpha\nbeta\ngamma\ndelta\n"


def test_lock_says_what_went_in_and_what_came_out() -> None:
    lock = json.loads(lock_text(INPUTS, PLAN, [rendered("train.py", "x\n")], ["b", "a"]))

    assert lock["recipec"] == __version__ and lock["schema_version"] == 1
    assert lock["recipes"] == {"recipe.toml": "0" * 64}
    assert lock["stack"]["packages"] == {"torch": "2.13.0"} and len(lock["stack"]["sha256"]) == 64
    assert lock["plan_sha256"] == sha256(PLAN).hexdigest()
    assert lock["files"] == {"train.py": sha256(b"x\n").hexdigest()}
    assert lock["deleted"] == ["a", "b"]


def test_lock_does_not_depend_on_order() -> None:
    files = [rendered("a", "1"), rendered("b", "2")]
    one = LockInputs(recipes={"x": "1", "y": "2"}, stack={"a": "1", "b": "2"})
    other = LockInputs(recipes={"y": "2", "x": "1"}, stack={"b": "2", "a": "1"})

    assert lock_text(one, PLAN, files) == lock_text(other, PLAN, files[::-1])
    assert lock_text(one, PLAN, files) != lock_text(LockInputs(recipes={"x": "3"}), PLAN, files)


def test_same_bytes_in_every_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "there", tmp_path / "not/there"):
        build(out, {"train.py": TEXT})
    assert tree(tmp_path / "there") == tree(tmp_path / "not/there")


def test_plan_is_kept_byte_for_byte(tmp_path: Path) -> None:
    build(tmp_path / "out", {"train.py": TEXT})
    assert (tmp_path / "out/.recipec/plan.json").read_bytes() == PLAN


def test_lines_of_an_untouched_file(tmp_path: Path) -> None:
    build(tmp_path / "out", {"a/train.py": TEXT})

    assert load(tmp_path / "out")["a/train.py"][2] == ("beta",)
    assert ids_at(tmp_path / "out", "a/train.py", 2) == Origin("beta", ("beta",), 2)
    for path, line in (("a/train.py", 0), ("a/train.py", 5), ("nothing", 1), ("a", 1)):
        assert ids_at(tmp_path / "out", path, line) is None


def test_lines_of_an_edited_file(tmp_path: Path) -> None:
    build(tmp_path / "out", {"train.py": TEXT})
    (tmp_path / "out/train.py").write_text("own\nalpha\nBETA\ndelta\nlast\n")

    found = [ids_at(tmp_path / "out", "train.py", line) for line in range(1, 6)]
    assert found == [
        Origin("own"),
        Origin("alpha", ("alpha",), 1),
        Origin("BETA"),
        Origin("delta", ("delta",), 4),
        Origin("last"),
    ]
    (tmp_path / "out/train.py").write_text("alpha\nBETA\ngamma\ndelta\n")
    assert ids_at(tmp_path / "out", "train.py", 2) == Origin("BETA", ("beta",), 2, edited=True)


def test_line_numbers_are_those_of_an_editor(tmp_path: Path) -> None:
    build(tmp_path / "out", {"train.py": TEXT})
    (tmp_path / "out/train.py").write_text("# a\u2028b\x0c\n" + TEXT)
    assert ids_at(tmp_path / "out", "train.py", 2) == Origin("alpha", ("alpha",), 1)


def test_without_a_readable_map(tmp_path: Path) -> None:
    assert load(tmp_path) is None and ids_at(tmp_path, "train.py", 1) is None
    build(tmp_path / "out", {"train.py": TEXT})
    kinds = ('{"train.py": []}', '{"train.py": {"x": []}}', '{"train.py": {"1": [2]}}', "[" * 100_000)
    shaped = (f'{{"schema_version": 1, "files": {kind}}}' for kind in kinds)
    for damaged in ("", "[]", '{"schema_version": 99, "files": {}}', '{"schema_version": 1}', *shaped):
        (tmp_path / "out/.recipec/source_map.json").write_text(damaged)
        assert load(tmp_path / "out") is None and ids_at(tmp_path / "out", "train.py", 1) is None


def test_a_lock_with_paths_outside_the_bundle_is_not_believed(tmp_path: Path) -> None:
    build(tmp_path / "out", {"train.py": TEXT})
    lock = tmp_path / "out/.recipec/lock.json"
    for damage in (
        {"files": {"../x": ""}},
        {"deleted": ["/etc/passwd"]},
        {"deleted": [[]]},
        {"name": 1},
        {"files": []},
    ):
        assert read_lock(tmp_path / "out") is not None
        lock.write_text(json.dumps(json.loads(lock.read_text()) | damage))
        assert read_lock(tmp_path / "out") is None
        lock.unlink()
        assert build(tmp_path / "out", {"train.py": TEXT}).exit_code == 0
