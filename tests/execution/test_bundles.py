"""Emitted bundles run on this machine's CPU, unmodified, as the processes and the sharding that were planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify import verify_bundle

RECIPES = Path(__file__).parent / "recipes"
# Each recipe stands for one way of running; the learn level takes three times as long, so it has one case of a kind.
CASES = {
    "sft-lora": "learn",
    "qlora": "run",
    "full-ddp": "run",
    "fsdp": "learn",
    "zero2": "run",
    "zero3": "run",
    "dpo": "learn",
    "sft-dpo": "run",
    "pretrain": "run",
}


@pytest.mark.executes
@pytest.mark.parametrize("name", CASES)
def test_a_bundle_runs(tmp_path: Path, name: str) -> None:
    done = compile_recipe(RECIPES / f"{name}.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / name, done.files, done.plan_json, done.lock)
    report = verify_bundle(tmp_path / name, CASES[name])
    assert report.ok, report.human()


def test_every_recipe_is_run() -> None:
    assert set(CASES) == {path.stem for path in RECIPES.glob("*.toml")}
