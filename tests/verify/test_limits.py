"""How long a run of verification may take, and what a source can be given."""

from __future__ import annotations

import os

import pytest

from recipec.verify.planted import ROWS, held
from recipec.verify.run import MOST_CROWDING, crowding


@pytest.mark.parametrize(
    ("load", "cores", "times"), [(0.3, 2, 1.0), (2.0, 2, 1.0), (6.0, 2, 3.0), (90.0, 2, MOST_CROWDING)]
)
def test_a_machine_that_others_use_gets_more_time_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, load: float, cores: int, times: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert crowding() == times


@pytest.mark.parametrize(
    ("given", "rows"),
    [({"path": "book.txt"}, 1), ({"path": "books/*.txt"}, ROWS), ({"path": "a.jsonl"}, ROWS), ({"hub": "a/b"}, ROWS)],
)
def test_a_text_file_without_a_pattern_is_one_document(given: dict[str, str], rows: int) -> None:
    assert held(given) == rows
