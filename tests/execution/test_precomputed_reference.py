"""A reference that scores all rows before training gives the losses of one that scores them in every step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import prepare_launch
from recipec.verify.sandbox import make_sandbox

RECIPES = Path(__file__).parent / "recipes"
RECIPE = """
[recipe]
name = "case"
[goal]
task = "align"
[model]
name = "meta-llama/Llama-3.2-1B"
[data]
preferences = "data/pairs.jsonl"
[hardware]
gpu = "h100"
gpus_per_node = {gpus}
[alignment]
method = "{method}"
precompute_reference = {precompute}
[train]
adaptation = "{adaptation}"
strategy = "{strategy}"
epochs = 2
learning_rate = 1e-3
global_batch_size = 8
"""
# Trains as train.py does, and writes down every loss and whether a reference stayed in memory.
SEEN = """
import json
from pathlib import Path

import train

seen = {}


class Guard(train.RunGuard):
    def on_log(self, args, state, control, logs, **kwargs):
        super().on_log(args, state, control, logs=logs, **kwargs)
        losses = {name: logs[name] for name in ("loss", "eval_loss", "rewards/margins") if name in logs}
        seen.setdefault("losses", []).append([state.global_step, losses])
        seen["precomputed"] = "ref" in " ".join(self.trainer.train_dataset.column_names)
        seen["copy"] = self.trainer.ref_model is not None


train.RunGuard = Guard
train.main()
Path("seen.json").write_text(json.dumps(seen))
"""

pytestmark = pytest.mark.executes


def seen(folder: Path, **asked: object) -> dict[str, list[tuple[int, dict[str, float]]]]:
    """What the first rank of the bundle's launch script saw."""
    folder.mkdir()
    (folder / "recipe.toml").write_text(RECIPE.format(**asked))
    (folder / "data").symlink_to(RECIPES / "data")
    done = compile_recipe(folder / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 40)
    bundle = sandbox.bundle.root
    (bundle / "seen.py").write_text(SEEN)
    lines = (bundle / "launch/local.sh").read_text().replace("\\\n", " ").splitlines()
    kept = [line for line in lines if 'evaluate.py"' not in line]
    (bundle / "launch/seen.sh").write_text("\n".join(kept).replace("/train.py", "/seen.py"))
    outcome = prepare_launch(sandbox, asked["gpus"], False, VerifyReport("run")).start("seen", "launch/seen.sh")
    assert outcome.ok, outcome.tail()
    return json.loads(next(sandbox.root.rglob("seen.json")).read_text())


@pytest.mark.parametrize(
    ("method", "adaptation", "strategy"),
    [
        ("dpo", "lora", "single"),
        *(pytest.param(*case, marks=pytest.mark.matrix) for case in (("kto", "full", "ddp"), ("dpo", "full", "fsdp"))),
    ],
)
def test_losses_do_not_depend_on_it(tmp_path: Path, method: str, adaptation: str, strategy: str, forked: None) -> None:
    asked = {"method": method, "adaptation": adaptation, "strategy": strategy, "gpus": 1 if strategy == "single" else 2}
    once, always = (seen(tmp_path / text, precompute=text, **asked) for text in ("true", "false"))
    assert (once["precomputed"], always["precomputed"]) == (True, False)
    assert not once["copy"] and always["copy"] is (adaptation == "full")
    assert [step for step, _ in once["losses"]] == [step for step, _ in always["losses"]]
    for (_, found), (_, expected) in zip(once["losses"], always["losses"], strict=True):
        assert found == pytest.approx(expected, abs=2e-4)
    trained = [found["loss"] for _, found in always["losses"] if "loss" in found]
    assert len(trained) > 2 and abs(trained[-1] - trained[0]) > 0.01, "the policy has moved away from the reference"
