"""What the emitted prepare_data.py holds of every row while it drops duplicates, splits and drops leaks."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES
from datasets import Dataset
from test_prepare_data import emitted

pytestmark = pytest.mark.executes
ROWS, MOST_BYTES = 30_000, 160


def test_a_row_takes_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tracemalloc sees Python objects and numpy arrays; benchmarks.rows_in_memory also what Arrow holds."""
    (tmp_path / "manual.txt").write_text("One line.\n" * 50)
    script = emitted(tmp_path, BASES["text"], monkeypatch)
    digests = [hashlib.sha256(str(n if n % 100 else 0).encode()).digest() for n in range(ROWS)]
    columns = {"teaches": [True] * ROWS, "itself": digests, "question": digests, "length": [1000] * ROWS}
    Dataset.from_dict(columns).save_to_disk(tmp_path / "rows")
    del digests, columns
    rows = Dataset.load_from_disk(tmp_path / "rows")
    monkeypatch.setattr(script, "read", lambda *_: rows)
    monkeypatch.setattr(script, "converted", lambda *_: rows)
    report: dict = {}
    tracemalloc.start()
    left, test = script.split(script.convert([{}], None, tmp_path, None, report), 0.01)
    left, evaluation = script.split(left, 0.01)
    held_out = {asked for part in (test, evaluation) for asked in script.values(part, "question")}
    script.fit(script.drop_leaks(left, held_out, report["train"]), SimpleNamespace(max_length=2048), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report["train"]["duplicates"] == ROWS // 100 - 1
    assert peak / ROWS < MOST_BYTES, f"{peak / ROWS:.0f} bytes of a row"


def test_no_column_is_read_whole() -> None:
    """900 bytes of a row where rows are selected: the library makes a table of one part for each."""
    folder = Path(__file__).parents[2] / "templates" / "data"
    assert not [path.name for path in folder.rglob("*.j2") if '"][:]' in path.read_text(encoding="utf-8")]
