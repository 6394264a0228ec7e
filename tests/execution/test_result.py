"""The result of full fine-tuning is in the type that is served, and its loss is the one that evaluate.py reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from emitted_modules import load
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import prepare_launch
from recipec.verify.sandbox import make_sandbox

RECIPE = Path(__file__).parent / "recipes" / "lion.toml"

pytestmark = pytest.mark.executes


def dtypes(folder: Path) -> set[str]:
    """Of the saved weights in a folder."""
    found = set()
    for file in folder.glob("model*.safetensors"):
        with safe_open(file, framework="pt") as saved:
            found |= {saved.get_slice(name).get_dtype() for name in saved.keys()}  # noqa: SIM118
    return found


def loss_of(model: PreTrainedModel, bundle: Path, folder: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Per learned token, of one row after the other, without evaluate.py."""
    encode = load(bundle / "rows.py", monkeypatch).encode
    tokenizer, losses, tokens = AutoTokenizer.from_pretrained(folder), 0.0, 0
    for line in (bundle / "data" / "sft" / "test.jsonl").read_text().splitlines()[:rows]:
        ids, learned = encode(json.loads(line), tokenizer)
        labels = [token if mark else -100 for token, mark in zip(ids, learned, strict=True)]
        with torch.no_grad():
            loss = model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
        losses, tokens = losses + loss.item() * sum(learned), tokens + sum(learned)
    return losses / tokens


def test_a_full_model_is_saved_in_bf16_and_its_loss_is_what_is_reported(
    tmp_path: Path, forked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = compile_recipe(RECIPE)
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    (tmp_path / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(tmp_path / "out"), tmp_path / "sandbox", 40)
    launch = prepare_launch(sandbox, 1, False, VerifyReport("run"))
    ended = launch.start("run", sandbox.bundle.launcher, "--max-steps", "4")
    assert ended.ok, ended.tail()
    result = sandbox.outputs / "sft"
    assert dtypes(result) == {"BF16"}
    assert dtypes(result / "checkpoint-4") == {"F32"}, "a resume needs what was trained"
    model = AutoModelForCausalLM.from_pretrained(result)
    assert model.dtype == torch.bfloat16, "by what the configuration says"
    reported = json.loads((sandbox.outputs / "evaluation" / "sft" / "quick" / "after.json").read_text())
    found = loss_of(model, sandbox.bundle.root, result, reported["rows"], monkeypatch)
    assert reported["metrics"]["eval_loss"] == pytest.approx(found, rel=2e-3)
