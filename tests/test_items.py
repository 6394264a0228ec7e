"""items.md names tests that are there, and every line names one or says that it is open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (HERE / "items.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| item ")
]
NUMBERED = {"D": range(1, 14), "T": range(1, 4), "L": range(1, 9), "R": range(1, 12), "C": range(1, 12)}
NUMBERED |= {"W": range(1, 6), "S": range(3, 6), "A": range(1, 12)}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_a_line_names_tests_that_are_there_or_is_open(line: list[str]) -> None:
    item, what, tests = line
    named = re.findall(r"`([^`]+)`", tests)
    assert what and (named or tests.startswith("open"))
    for path, _, name in (test.partition("::") for test in named):
        text = (HERE / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), f"{item}: {path} has no {name}"


def test_every_item_has_one_line() -> None:
    items = [line[0] for line in LINES]
    assert len(items) == len(set(items))
    assert {f"{part}{number}" for part, numbers in NUMBERED.items() for number in numbers} <= set(items)
