"""Rows of recipec that contradict each other, or that no code is behind, as findings (E0801)."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.agreement import disagreements
from recipec.diagnostics.model import Diagnostic


def contradictions() -> Iterator[Diagnostic]:
    """Every contradiction between rows; this reads nothing that is made from them."""
    for sentence in disagreements():
        yield Diagnostic("E0801", sentence, help=("change one of the two rows in recipec/axes",))


def without_code(sentence: str) -> Diagnostic:
    """A row whose file is not there."""
    return Diagnostic("E0801", sentence, help=("write the file, as ARCHITECTURE.md describes it",))
