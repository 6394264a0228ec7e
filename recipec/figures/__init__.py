"""Every number of the rule books, with ours beside it. Importing this package fills `figure.FIGURES`."""

from __future__ import annotations

from recipec.figures import (
    book_000,
    book_001_gpus,
    book_001_machine,
    book_001_money,
    book_001_tree,
    book_003,
    book_004,
)
from recipec.figures.figure import FIGURES

__all__ = [
    "FIGURES",
    "book_000",
    "book_001_gpus",
    "book_001_machine",
    "book_001_money",
    "book_001_tree",
    "book_003",
    "book_004",
]
