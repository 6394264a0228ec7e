"""The merge agrees with git's where it must, and keeps both sides' changes."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipec.bundle.lines import lines_of, stretches
from recipec.bundle.merge import Merged, has_markers, merge_json, merge_text

texts = st.lists(st.sampled_from("abcdef\n"), max_size=12).map("\n".join) | st.text(max_size=8)
LABELS = ["-L", "your edit", "-L", "last build", "-L", "new build"]


@given(last=texts, mine=texts)
def test_what_one_side_leaves_alone_takes_the_other(last: str, mine: str) -> None:
    assert merge_text(last, mine, last).text == mine
    assert merge_text(last, last, mine).text == mine
    assert merge_text(last, mine, mine).text == mine
    assert merge_text(last, mine, last).conflicts == merge_text(last, mine, mine).conflicts == 0


@given(text=st.text())
def test_lines_are_the_text(text: str) -> None:
    lines = lines_of(text)
    assert "".join(lines) == text
    assert all(line.find("\n") in (-1, len(line) - 1) for line in lines)


def edited(lines: list[str], rng: random.Random) -> list[str]:
    """A few lines inserted, changed or removed."""
    lines = list(lines)
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(lines))
        lines[at : at + rng.randint(0, 2)] = [f"edit {rng.randint(0, 9)}\n" for _ in range(rng.randint(0, 2))]
    return lines


def git_merge(folder: Path, last: str, mine: str, new: str) -> tuple[str, int]:
    for name, text in (("last", last), ("mine", mine), ("new", new)):
        (folder / name).write_text(text)
    command = ["git", "merge-file", "-p", "--diff3", *LABELS, "mine", "last", "new"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout, done.returncode


def test_agrees_with_git(tmp_path: Path) -> None:
    rng = random.Random(17)
    conflicts = 0
    for case in range(150):
        base = [f"line {i}\n" for i in range(rng.randint(0, 12))]
        last, mine, new = ("".join(lines) for lines in (base, edited(base, rng), edited(base, rng)))
        merged = merge_text(last, mine, new)
        text, found = git_merge(tmp_path, last, mine, new)

        assert bool(merged.conflicts) == bool(found), f"case {case}"
        assert merged.text == text or merged.conflicts, f"case {case}"
        conflicts += bool(found)
    assert 30 < conflicts < 120


def test_a_conflict_shows_all_three_sides() -> None:
    merged = merge_text("a\nlr = 1\nz", "a\nlr = 2\nz", "a\nlr = 3\nz")

    assert merged.conflicts == 1
    assert merged.text == (
        "a\n<<<<<<< your edit\nlr = 2\n||||||| last build\nlr = 1\n=======\nlr = 3\n>>>>>>> new build\nz"
    )
    assert has_markers(merged.text) and not has_markers("a <<<<<<< your edit")


def test_markers_stand_on_lines_of_their_own_without_a_final_newline() -> None:
    assert merge_text("a", "b", "c").text.splitlines()[1:3] == ["b", "||||||| last build"]


NOT_JSON = [
    "", "{,}", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": "\x07"}', '{"a": "\\u0007"}', '{"\\ud800": 1}',
    '{"a": "\udcff"}', '{"a": ' + "[" * 600 + "]" * 600 + "}", "[" * 100_000, '{"a": ' + "9" * 5000 + "}",
]  # fmt: skip


def test_separate_edits_are_both_kept() -> None:
    assert merge_text("a\nb\nc\n", "a\nb\nc\nmine\n", "new\na\nb\nc\n").text == "new\na\nb\nc\nmine\n"


@pytest.mark.parametrize(
    ("last", "mine", "new", "merged", "conflicts"),
    [
        ({"a": 1}, {"a": 1, "mine": 2}, {"a": 3}, {"a": 3, "mine": 2}, 0),
        ({"z": {"lr": 1, "b": 2}}, {"z": {"lr": 5, "b": 2}}, {"z": {"lr": 1, "b": 3}}, {"z": {"lr": 5, "b": 3}}, 0),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": 1, "b": 3}, {"b": 3}, 0),
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}, 1),
        ({"a": 1}, {}, {"a": 3}, {}, 1),
        ({"a": 1}, {"a": True}, {"a": 1.0}, {"a": True}, 1),
        ({"z": {"lr": 1, "b": 2}}, {"z": {"lr": 5, "b": 2}}, {"z": {"lr": 7, "b": 3}}, {"z": {"lr": 5, "b": 3}}, 1),
        ({}, {"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, 0),
        ([1], [1, 2], [0, 1], [1, 2], 1),
    ],
)
def test_json_merges_by_key(last: Any, mine: Any, new: Any, merged: Any, conflicts: int) -> None:
    found = merge_json(*(json.dumps(side) for side in (last, mine, new)))
    assert (json.loads(found.text), found.conflicts) == (merged, conflicts)


def test_what_is_kept_of_a_conflict_are_the_changed_lines() -> None:
    last, mine, new = "a\nb\nc\nd\n", "a\nMINE\nc\nd\n", "a\nB\nC\nD\n"
    assert merge_text(last, mine, new, keep=True) == Merged("a\nMINE\nC\nD\n", 1)
    assert merge_text(last, "a\nMINE\nmore\nc\nd\n", new, keep=True) == Merged("a\nMINE\nmore\nc\nd\n", 1)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_not_merged(text: str) -> None:
    with pytest.raises(ValueError):
        merge_json("{}", text, '{"b": 1}')


@pytest.mark.parametrize("between", ["x\n" * 20_000, "".join(f"{n}\n" for n in range(20_000))])
def test_many_lines_are_compared_in_short_time(between: str) -> None:
    """Lines that both begin and end with are found; what lies between two edits counts as changed as a whole."""
    last, mine = f"a\n{between}b\n", f"a\n{between}y\n{between}b\n"
    ours, theirs = f"a\nours\n{between}ours\nb\n", f"a\n{between}theirs\nb\n"
    assert merge_text(last, mine, last) == Merged(mine, 0)
    merged = merge_text(last, ours, theirs)
    assert merged.conflicts == 1 and merged.text.startswith("a\n") and merged.text.endswith("b\n")


@given(old=texts, new=texts)
def test_stretches_cover_both_texts(old: str, new: str) -> None:
    old_lines, new_lines = lines_of(old), lines_of(new)
    found = stretches(old_lines, new_lines)
    assert [line for each in found for line in old_lines[each.old : each.old_end]] == old_lines
    assert [line for each in found for line in new_lines[each.new : each.new_end]] == new_lines
    assert all(old_lines[a] == new_lines[b] for each in found if each.equal for a, b in each.pairs)
