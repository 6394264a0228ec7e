"""Which cases of a long sweep run with every commit; the others run with `pytest -m matrix`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def quick_where(quick: Container[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases as parameters, a tuple as several; those that are not among the quick ones are the matrix's."""
    return [_parameter(case, [pytest.mark.matrix] * (case not in quick)) for case in cases]


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """All cases as parameters; of as many as `every` the first runs with every commit."""
    found = list(cases)
    return quick_where(found[::every], found)


def _parameter(case: Any, marks: list[Any]) -> Any:
    return pytest.param(*case, marks=marks) if isinstance(case, tuple) else pytest.param(case, marks=marks)
