"""A folder of texts, named by a glob: Markdown and plain text, of which each file is a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from test_prepare_data import emitted, prepared

from recipec.backends.reading import _READERS
from recipec.dataset import ENDINGS


def manuals(folder: Path, *endings: str) -> None:
    (folder / "manuals" / "old").mkdir(parents=True)
    for number in range(40):
        ending = endings[number % len(endings)]
        place = folder / "manuals" / ("old" if number % 2 else "") / f"{number}{ending}"
        place.write_text(f"# Pump {number}\n\nPump {number} moves water.\n")


@pytest.mark.executes
@pytest.mark.parametrize("pattern", ["manuals/**/*.md", "manuals/**/*"])
def test_every_file_of_a_folder_becomes_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    manuals(tmp_path, ".md", *[".txt"] * (not pattern.endswith(".md")))
    recipe = with_key(BASES["text"], "data.train", pattern)
    emitted(tmp_path, recipe, monkeypatch).main()
    report = json.loads((tmp_path / "data/continue-pretrain/report.json").read_text())
    assert report["train"]["read"] == 40
    rows = [row["text"] for row in prepared(tmp_path, "continue-pretrain/train")]
    assert rows and all(row.startswith("# Pump") for row in rows)


def test_a_glob_of_markdown_needs_no_table_of_readers(tmp_path: Path) -> None:
    manuals(tmp_path, ".md")
    script = texts(good(tmp_path, with_key(BASES["text"], "data.train", "manuals/**/*.md")))["prepare_data.py"]
    assert "yield from text_file(file, shown)" in script and "READERS" not in script


def test_what_is_read_when_a_recipe_is_compiled_is_read_when_rows_are_prepared() -> None:
    assert {*_READERS} == {*ENDINGS}
