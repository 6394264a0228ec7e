"""Emitted bundles run on this machine's CPU, unmodified, as the processes and the sharding that were planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify import verify_bundle

RECIPES = Path(__file__).parent / "recipes"
EXAMPLES = Path(__file__).parents[2] / "generated-examples"
# What the shipped recipes do not show: that a run learns and resumes, two further architectures, DPO on a model
# without a chat template, and another optimizer.
CASES = dict.fromkeys(("sft-lora", "fsdp", "dpo"), "learn") | dict.fromkeys(
    ("zero2", "zero3", "hsdp", "from-scratch", "adafactor"), "run"
)
MATRIX = dict.fromkeys(
    (
        *("qlora", "full-ddp", "sft-dpo", "pretrain", "zero1", "zero3", "hsdp"),
        *("from-scratch", "from-scratch-fsdp", "adafactor", "lion", "lion-8bit", "paged-adamw", "sgd"),
    ),
    "learn",
)

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_shipped_example_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_ROOT", str(EXAMPLES.parent / "recipes"))  # where the demo's model configuration is
    report = verify_bundle(EXAMPLES / name, "run")
    assert report.ok, report.human()


@pytest.mark.parametrize("name", CASES)
def test_a_bundle_runs(tmp_path: Path, name: str) -> None:
    _verify(tmp_path, name, CASES[name])


@pytest.mark.matrix
@pytest.mark.parametrize("name", MATRIX)
def test_a_bundle_of_the_matrix_runs(tmp_path: Path, name: str) -> None:
    _verify(tmp_path, name, MATRIX[name])


def test_every_recipe_is_run() -> None:
    assert CASES.keys() | MATRIX.keys() == {path.stem for path in RECIPES.glob("*.toml")}


def _verify(folder: Path, name: str, level: str) -> None:
    done = compile_recipe(RECIPES / f"{name}.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / name, done.files, done.plan_json, done.lock)
    report = verify_bundle(folder / name, level)
    assert report.ok, report.human()
