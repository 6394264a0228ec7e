"""One folder per diagnostic: CODE or CODE-variant, with a recipe and the text that a user sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recipec.diagnostics.codes import CODES
from recipec.diagnostics.human import human
from recipec.diagnostics.model import Report
from recipec.recipe import load_recipe

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))

_LATER = "a later pass reports it"
PENDING = {
    "E0005": "the file is too large to commit: tests/recipe/test_source.py writes one",
    **dict.fromkeys(("E0301", "E0302", "E0303", "E0304", "E0305", "E0306"), _LATER),
    **dict.fromkeys(("E0402", "E0403", "W0501", "W0502", "W0503", "W0504", "E0601"), _LATER),
    **dict.fromkeys(("E0701", "E0702", "W0701"), "writing a bundle reports it"),
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_faulty_recipe_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[Path, str], None]
) -> None:
    monkeypatch.chdir(folder)
    report = Report()
    load_recipe(Path("recipe.toml"), report)
    assert folder.name.split("-")[0] in {diagnostic.code for diagnostic in report.diagnostics}
    golden(folder / "expected.txt", human(report.diagnostics))


def test_every_code_has_a_folder_or_a_reason() -> None:
    shown = {folder.name.split("-")[0] for folder in FOLDERS}
    assert shown | set(PENDING) == set(CODES)
    assert not shown & set(PENDING), "take these out of PENDING"
