"""Mistakes are made where they count, and each known one has the test that notices it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no part of the package

from benchmarks.mutants.known import Known, known_mutants
from benchmarks.mutants.operators import mutants
from benchmarks.mutants.sandbox import ROOT


@pytest.mark.parametrize("known", known_mutants(), ids=lambda known: known.mistake)
def test_a_known_mistake_has_its_test(known: Known) -> None:
    file, _, name = known.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
    assert (ROOT / known.file).read_text(encoding="utf-8").count(known.before) == 1


CODE = '''
"""A text that holds 1 < 2."""
LIMIT = 3
SIDES: tuple[int, ...] = (1, 2)


@rule("OPT-001", seconds=5)
def decide(size: int = 7) -> Choice:
    """Less than 4."""
    if size < LIMIT and known(size):
        raise ValueError(f"{size} is under 3")
    return Choice("small", because="not a text to change", accepts=(1, size))
'''


def test_mistakes_are_made_in_code_and_not_in_texts(tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(CODE, encoding="utf-8")
    found = mutants(tmp_path, "rule.py")
    changes = {(mutant.scope, mutant.before, mutant.after) for mutant in found}
    assert changes >= {
        ("", "3", "(4)"),
        ("", "(1, 2)", "((1,))"),
        ("", "7", "(-7)"),
        ("decide", "size < LIMIT", "(size <= LIMIT)"),
        ("decide", "size < LIMIT and known(size)", "(size < LIMIT or known(size))"),
        ("decide", "size < LIMIT and known(size)", "(True)"),
        ("decide", 'raise ValueError(f"{size} is under 3")', "pass"),
        ("decide", '"small"', "('smallx')"),
        ("decide", "(1, size)", "((size,))"),
    }
    assert not [before for _, before, _ in changes if "text" in before and not before.startswith("return")]
    assert not {"5", '"OPT-001"', "4"} & {before for _, before, _ in changes}


def test_a_mistake_is_known_again_when_other_lines_move(tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(CODE, encoding="utf-8")
    before = {mutant.id for mutant in mutants(tmp_path, "rule.py")}
    (tmp_path / "rule.py").write_text("import os\n" + CODE.replace("LIMIT = 3", "LIMIT = 30"), encoding="utf-8")
    after = {mutant.id for mutant in mutants(tmp_path, "rule.py")}
    assert len(before) > 20 and len(before - after) == 3  # those of LIMIT
