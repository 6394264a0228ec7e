"""Raw text whose documents are longer than a block: all of it is trained on, none of it counts as lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiers import quick_where

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import prepare_launch, run_bundle
from recipec.verify.sandbox import make_sandbox

RECIPE = Path(__file__).parent / "recipes" / "pretrain.toml"

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("packing", quick_where({"true"}, ["true", "false"]))
def test_documents_longer_than_a_block_are_trained_on(tmp_path: Path, packing: str, forked: None) -> None:
    text = RECIPE.read_text(encoding="utf-8").replace("examples = ", "max_length = 32\nexamples = ")
    (tmp_path / "recipe.toml").write_text(text.replace("[train]", f"[train]\npacking = {packing}"), encoding="utf-8")
    (tmp_path / "data").symlink_to(RECIPE.parent / "data")
    done = compile_recipe(tmp_path / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    (tmp_path / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(tmp_path / "out"), tmp_path / "sandbox", 40)
    (file,) = (sandbox.root / "data").rglob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    long = [{"text": " ".join([row["text"]] * 9)} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in long), encoding="utf-8")

    report = VerifyReport("run")
    run_bundle(prepare_launch(sandbox, 1, False, report), report)

    assert report.ok, report.document()
    prepared = json.loads((sandbox.bundle.root / "data/continue-pretrain/report.json").read_text(encoding="utf-8"))
    assert (prepared["train"]["too_long"], prepared["train"]["dropped_share"]) == (36, 0)
    assert prepared["train"]["rows"] == 36 if packing == "true" else prepared["train"]["rows"] > 36
