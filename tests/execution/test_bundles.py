"""Emitted bundles run on this machine's CPU, unmodified, as the processes and the sharding that were planned.

The scripts run in forks of a process that has imported the training stack; cpu-demo is started as a user starts it.
Every method and strategy is here once. Whether all of them learn, with further adaptations, models, recipes and tests:
`python tests/execution/matrix.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.axes import METHODS, STRATEGIES
from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify import verify_bundle

RECIPES = Path(__file__).parent / "recipes"
EXAMPLES = Path(__file__).parents[2] / "generated-examples"
STARTED_ANEW = "cpu-demo"
SHIPPED = (
    *("cpu-demo", "pretrain", "new-domain", "sft-then-dpo", "mixture"),
    *("cpo", "distill", "kto", "on-policy-distill", "orpo", "ppo", "reward", "rloo", "simpo"),
)
# What these do not show: that a run learns and resumes, alone and with answers of its own; packed examples and 4 bits;
# further strategies; steps of train.py's own, a server that writes the answers, and ranks that share a copy which
# writes them.
CASES = dict.fromkeys(("sft-lora", "grpo"), "learn")
CASES |= dict.fromkeys(
    (
        *("packed", "qlora", "zero1", "zero2", "zero3", "hsdp"),
        *("loop-torch", "grpo-vllm-server", "grpo-vllm-split"),
    ),
    "run",
)

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if name != STARTED_ANEW:
        request.getfixturevalue("forked")
    monkeypatch.setenv("DATA_ROOT", str(EXAMPLES.parent / "recipes"))  # where the demo's model configuration is
    report = verify_bundle(EXAMPLES / name, "run")
    assert report.ok, report.document()


@pytest.mark.parametrize("name", CASES)
def test_a_bundle_runs(tmp_path: Path, name: str, forked: None) -> None:
    done = compile_recipe(RECIPES / f"{name}.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / name, done.files, done.plan_json, done.lock)
    report = verify_bundle(tmp_path / name, CASES[name])
    assert report.ok, report.document()
    looked_at = " ".join(check.name for check in report.checks)
    assert "loses nothing of a row" in looked_at and "no conversation is in two splits" in looked_at
    assert CASES[name] == "run" or "goes on with the rows that are left" in looked_at


def test_every_method_and_strategy_runs_once() -> None:
    plans = [json.loads((EXAMPLES / name / ".recipec/plan.json").read_text(encoding="utf-8")) for name in SHIPPED]
    plans += [json.loads(compile_recipe(RECIPES / f"{name}.toml").plan_json or "") for name in CASES]
    stages = [stage for plan in plans for stage in plan["stages"]]
    assert {stage["objective"] for stage in stages} == METHODS.keys()
    assert {stage["choice"]["strategy"] for stage in stages} == STRATEGIES.keys()
