"""One folder per diagnostic: CODE or CODE-variant, with a recipe and the text that a user sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recipec.compiler import compile_recipe
from recipec.diagnostics.codes import CODES
from recipec.diagnostics.human import human

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))

PENDING = {
    "E0005": "the file is too large to commit: tests/recipe/test_reading.py writes one",
    "E0009": "18 files that extend each other: tests/recipe/test_extends.py writes them",
    "E0801": "no recipe causes it: tests/compiler/test_agreement.py",
    **dict.fromkeys(("E0701", "E0702", "E0703", "E0704", "W0701"), "writing a bundle reports it: tests/bundle"),
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_faulty_recipe_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[Path, str], None]
) -> None:
    monkeypatch.chdir(folder)
    diagnostics = compile_recipe(Path("recipe.toml")).diagnostics
    assert folder.name.split("-")[0] in {diagnostic.code for diagnostic in diagnostics}
    assert compile_recipe(Path("recipe.toml"), only_check=True).diagnostics == diagnostics  # what `recipec check` tells
    golden(folder / "expected.txt", human(diagnostics))


def test_every_code_has_a_folder_or_a_reason() -> None:
    shown = {folder.name.split("-")[0] for folder in FOLDERS}
    assert shown | set(PENDING) == set(CODES)
    assert not shown & set(PENDING), "take these out of PENDING"
