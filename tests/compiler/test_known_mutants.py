"""Each known mistake can still be made, and the test that notices it still exists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no part of the package

from benchmarks.mutants.known import Known, known_mutants
from benchmarks.mutants.sandbox import ROOT


@pytest.mark.parametrize("known", known_mutants(), ids=lambda known: known.mistake)
def test_a_known_mistake_has_its_test(known: Known) -> None:
    file, _, name = known.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
    assert (ROOT / known.file).read_text(encoding="utf-8").count(known.before) == 1
