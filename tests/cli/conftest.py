"""A folder with a small recipe and its data, and the command line as a function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_recipe import RECIPE

from recipec.cli.group import recipec

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: recipe.toml, faster.toml with another learning rate, broken.toml, and rows."""
    asked = [(f"{verb} to {number}.", number) for verb in ("Count", "Climb", "Tally") for number in range(1, 60)]
    rows = [{"instruction": question, "output": "one, two " * number} for question, number in asked]
    texts = {
        "recipe.toml": RECIPE,
        "faster.toml": RECIPE.replace("2e-4", "4e-4"),
        "risky.toml": RECIPE.replace("2e-4", "9e-1"),
        "broken.toml": RECIPE.replace("learning_rate", "learning_rte"),
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for variable in ("NO_COLOR", "FORCE_COLOR", "RECIPEC_TRACEBACK"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Run a command line in the working folder; a result has its exit code, stdout and stderr."""
    return lambda *arguments: CliRunner().invoke(recipec, [str(argument) for argument in arguments])


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """The bundle of recipe.toml, in `out`."""
    result = run("build", "recipe.toml", "-o", "out")
    assert result.exit_code == 0, result.output
    return folder / "out"
