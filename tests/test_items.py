"""items.md names tests that are there, and every line names one or says that it is open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recipec.verify import LEVELS

HERE = Path(__file__).parent
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (HERE / "items.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| item ")
]
CELLS = re.compile(r"`execution/matrix\.csv` \(([^)]*)\)")
NUMBERED = {"D": range(1, 14), "T": range(1, 4), "L": range(1, 9), "R": range(1, 12), "C": range(1, 12)}
NUMBERED |= {"W": range(1, 6), "S": range(3, 6), "A": range(1, 12)}


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0]}{' found' * (len(line) == 4)}")
def test_a_line_names_tests_that_are_there_or_is_open(line: list[str]) -> None:
    item, what, *level, tests = line
    named = re.findall(r"`([^`]+)`", tests)
    assert what and (named or tests.startswith("open"))
    assert not level or level[0] in LEVELS
    for path, _, name in (test.partition("::") for test in named):
        text = (HERE / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), f"{item}: {path} has no {name}"


def test_a_recipe_that_the_matrix_is_named_for_has_passed_there() -> None:
    named = [cell for *_, tests in LINES for cells in CELLS.findall(tests) for cell in cells.split(", ")]
    table = (HERE / "execution/matrix.csv").read_text(encoding="utf-8")
    assert named and not [cell for cell in named if not re.search(f"^{re.escape(cell)},learn,passed,", table, re.M)]


def test_what_verify_finds_has_one_line_each() -> None:
    found = [line[0] for line in LINES if len(line) == 4]
    assert len(found) == len(set(found))
    assert {"D1", "D7", "L1", "L2", "R1", "R5", "A1"} <= set(found)


def test_every_item_has_one_line() -> None:
    items = [line[0] for line in LINES if len(line) == 3]
    assert len(items) == len(set(items))
    assert {f"{part}{number}" for part, numbers in NUMBERED.items() for number in numbers} <= set(items)
