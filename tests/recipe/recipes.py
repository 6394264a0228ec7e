"""Recipes that tests write: a complete one, and what they lay over it."""

from __future__ import annotations

from pathlib import Path

from recipec.diagnostics.model import Report
from recipec.recipe import LoadedRecipe, load_recipe

BASE = """\
[recipe]
name = "case"
[goal]
task = "instruct"
[model]
name = "Qwen/Qwen3-8B"
[data]
train = "train.jsonl"
[hardware]
gpu = "h100"
gpus_per_node = 2
"""


def write(folder: Path, **files: str | bytes) -> Path:
    """Write `recipe=...`, `team=...` as recipe.toml, team.toml and return the path of recipe.toml."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "recipe.toml"


def load(folder: Path, **files: str | bytes) -> LoadedRecipe:
    """Write the files and load recipe.toml, which must be without errors."""
    report = Report()
    loaded = load_recipe(write(folder, **files), report)
    assert loaded, report.diagnostics
    return loaded


def findings(folder: Path, **files: str | bytes) -> Report:
    """Write the files and load recipe.toml, which must be refused."""
    report = Report()
    assert load_recipe(write(folder, **files), report) is None
    assert report.has_errors
    return report


def codes(folder: Path, **files: str | bytes) -> list[str]:
    """Return the codes of the errors in the order reported."""
    return [diagnostic.code for diagnostic in findings(folder, **files).diagnostics]
