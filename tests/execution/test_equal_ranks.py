"""All ranks of a pretraining begin with the same random weights, made by the emitted train.py itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import prepare_launch
from recipec.verify.sandbox import make_sandbox

RECIPE = Path(__file__).parent / "recipes" / "from-scratch.toml"
# What a rank sees of the weights: gathered where ZeRO-3 has sharded them.
SEEN = """
import hashlib
from pathlib import Path

from deepspeed import zero

import train

config = train.training_config(train.parse_args())
weights = list(train.random_model(config).parameters())
with zero.GatheredParameters(weights, enabled=hasattr(weights[0], "ds_tensor")):
    seen = hashlib.sha256(b"".join(weight.detach().float().numpy().tobytes() for weight in weights)).hexdigest()
    Path(f"seen-{config.process_index}").write_text(f"{seen} {max(float(weight.std()) for weight in weights):.3f}")
"""

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_all_ranks_begin_with_the_same_weights(tmp_path: Path, strategy: str) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.read_text().replace('"zero3"', f'"{strategy}"'))
    (tmp_path / "data").symlink_to(RECIPE.parent / "data")
    done = compile_recipe(recipe)
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    (tmp_path / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(tmp_path / "out"), tmp_path / "sandbox", 40)
    folder = sandbox.bundle.root
    (folder / "seen.py").write_text(SEEN)
    lines = (folder / "launch/local.sh").read_text().replace("\\\n", " ").splitlines()
    kept = [line for line in lines if not any(f'{name}.py"' in line for name in ("prepare_data", "evaluate"))]
    (folder / "launch/seen.sh").write_text("\n".join(kept).replace("/train.py", "/seen.py"))

    outcome = prepare_launch(sandbox, 2, False, VerifyReport("run")).start("seen", "launch/seen.sh")

    assert outcome.ok, outcome.tail()
    first, second = (next(sandbox.root.rglob(f"seen-{rank}")).read_text() for rank in range(2))
    assert first == second
    assert float(first.split()[1]) > 0.01, "they are random, not zero"
