"""Emitted bundles run on this machine's CPU, unmodified, as the processes and the sharding that were planned.

The scripts run in forks of a process that has imported the training stack; cpu-demo is started as a user starts it.
Further combinations, and whether all of these learn: `python tests/execution/matrix.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify import verify_bundle

RECIPES = Path(__file__).parent / "recipes"
EXAMPLES = Path(__file__).parents[2] / "generated-examples"
STARTED_ANEW = "cpu-demo"
# Of the shipped examples; each other method learns below.
LEARNS = "cpo", "distill", "dpo", "on-policy-distill", "orpo", "simpo"
# What the shipped recipes do not show: that a run learns and resumes, in 4 and 8 bits too, packed examples, a
# training under FSDP, of all weights and of adapters, and tokens that the model did not have.
CASES = dict.fromkeys(
    (
        *("sft-lora", "packed", "qlora", "lora-int8", "fsdp", "fsdp-lora", "loop-lora", "new-tokens"),
        *("grpo", "rloo", "ppo"),
    ),
    "learn",
)
# Further strategies, and stages on different numbers of nodes; two further architectures, heads of two sizes, layers
# without attention, and shared experts with buffers that a checkpoint holds; variants of LoRA and prompts; rows in
# order, a start from an adapter, rewards of a model, and steps of train.py's own.
CASES |= dict.fromkeys(
    (
        *("zero2", "zero3", "hsdp", "mixed-nodes"),
        *("hybrid", "convolutions", "two-heads", "shared-experts"),
        *("pissa", "dora", "ia3", "p-tuning", "prefix-tuning", "bottleneck"),
        *("curriculum", "warm", "judged", "loop-torch", "new-tokens-full"),
    ),
    "run",
)

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_shipped_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if name != STARTED_ANEW:
        request.getfixturevalue("forked")
    monkeypatch.setenv("DATA_ROOT", str(EXAMPLES.parent / "recipes"))  # where the demo's model configuration is
    report = verify_bundle(EXAMPLES / name, "learn" if name in LEARNS else "run")
    assert report.ok, report.human()


@pytest.mark.parametrize("name", CASES)
def test_a_bundle_runs(tmp_path: Path, name: str, forked: None) -> None:
    done = compile_recipe(RECIPES / f"{name}.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / name, done.files, done.plan_json, done.lock)
    report = verify_bundle(tmp_path / name, CASES[name])
    assert report.ok, report.human()
    looked_at = " ".join(check.name for check in report.checks)
    assert "loses nothing of a row" in looked_at and "no conversation is in two splits" in looked_at
    assert CASES[name] == "run" or "goes on with the rows that are left" in looked_at
