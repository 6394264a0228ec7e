"""Paths of the repository that documents and modules name are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from recipec.planner.search import measures

ROOT = Path(__file__).parents[1]
TOPS = ("tests", "recipec", "templates", "docs", "benchmarks", "recipes")
PACKAGES = tuple(path.name for path in (ROOT / "recipec").iterdir() if path.is_dir())
DOCUMENTS = ("ARCHITECTURE.md", "README.md", "benchmarks/results/mutants.md")
MODULES = sorted(
    path.relative_to(ROOT).as_posix() for top in ("recipec", "tests") for path in (ROOT / top).rglob("*.py")
)
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")  # NAME stands for any


def named(text: str, tops: tuple[str, ...]) -> set[str]:
    """The files below these folders that a text names."""
    found = re.findall(rf"(?<![\w./-])(?:{'|'.join(tops)})/[\w./-]*\.(?:py|md|toml|j2|csv|json)\b", text)
    return {path for path in found if not PLACEHOLDER.search(path.rpartition("/")[2].partition(".")[0])}


def missing(paths: set[str]) -> list[str]:
    """ARCHITECTURE.md names parts of the package without its own name."""
    return sorted(path for path in paths if not any((place / path).exists() for place in (ROOT, ROOT / "recipec")))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_that_a_document_names_exist(document: str) -> None:
    assert missing(named((ROOT / document).read_text(encoding="utf-8"), (*TOPS, *PACKAGES))) == []


def test_paths_that_a_module_names_exist() -> None:
    found = {}
    for module in MODULES:
        tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
        if lost := missing(named(ast.get_docstring(tree) or "", TOPS)):
            found[module] = lost
    assert found == {}


def test_the_steps_to_a_plan_stand_in_the_order_in_which_they_are_tried() -> None:
    found = re.findall(r"^\d\. `(\w+)`: ", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [measures._plain.__name__, *(f"_{name}" for name in found)] == [step.__name__ for step in measures._STEPS]


def test_a_path_that_is_not_there_is_found() -> None:
    text = "see tests/execution/test_rows_agree.py, `axes/kinds.py` and recipes/NAME.toml"
    assert missing(named(text, (*TOPS, *PACKAGES))) == ["tests/execution/test_rows_agree.py"]
