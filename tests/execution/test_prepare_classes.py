"""Rows of a classifier, prepared: the class is the answer that is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES
from test_prepare_data import emitted, prepared, write

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("classes", [("complaint", "praise"), ("0", "1"), ("no", "yes"), ("negative", "positive")])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_the_class_becomes_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: tuple[str, str], kind: str
) -> None:
    rows = [(f"Order {n} is late.", classes[n % 2]) for n in range(40)]
    write(tmp_path / "rows.jsonl", [{"text": text, "label": label} for text, label in rows])
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    columns = {"prompt": "text", "completion": "label"}
    data = {"train": f"rows.{kind}", "columns": columns, "max_length": 64}
    emitted(tmp_path, BASES["lora-single"] | {"data": data}, monkeypatch).main()

    found = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    asked_and_answered = {(row["prompt"][0]["content"], row["completion"][0]["content"]) for row in found}
    assert len(found) == 40 and asked_and_answered == {*rows}
