"""Emitted bundles run on this machine's CPU, unmodified, as the processes and the sharding that were planned.

The scripts run in forks of a process that has imported the training stack; cpu-demo is started as a user starts it.
Further combinations: `python tests/execution/matrix.py`.
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
# What the shipped recipes do not show: that a run learns and resumes, in 4 bits too, two further architectures, DPO on
# a model without a chat template, another optimizer, adapters under FSDP, layers that keep what others recompute, and
# stages on different numbers of ranks and of nodes, variants of LoRA; a student that gets nearer to its teacher; packed
# examples; layers without attention; shared experts, and buffers that a checkpoint holds;
# heads of two sizes, in the text part of a checkpoint.
CASES = dict.fromkeys(
    (
        *("sft-lora", "hybrid", "convolutions", "two-heads", "packed", "qlora", "fsdp", "fsdp-lora"),
        *("dpo", "orpo", "cpo", "simpo", "distill", "grpo", "rloo", "ppo", "rlhf"),
    ),
    "learn",
) | dict.fromkeys(
    (
        "zero2",
        "zero3",
        "shared-experts",
        "hsdp",
        "mixed-ranks",
        "mixed-nodes",
        "from-scratch",
        "adafactor",
        "some-layers",
    ),
    "run",
)
CASES |= {
    "pissa": "learn",
    "dora": "learn",
    "qdora": "run",
    "lora-plus": "run",
    "rslora": "run",
    "ia3": "learn",
    "prompt-tuning": "learn",
    "curriculum": "learn",
    "warm": "learn",
}
CASES |= {"judged": "run", "loop-lora": "learn", "loop-torch": "run"}  # steps of train.py's own

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_shipped_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if name != STARTED_ANEW:
        request.getfixturevalue("forked")
    monkeypatch.setenv("DATA_ROOT", str(EXAMPLES.parent / "recipes"))  # where the demo's model configuration is
    report = verify_bundle(EXAMPLES / name, "run")
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
