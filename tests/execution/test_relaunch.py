"""A bundle that is launched again after a failure in its second stage goes on there, and ends as it would have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.learn import read_weights, weight_problems
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.run import Rehearsal, prepare_launch
from recipec.verify.sandbox import make_sandbox

RECIPE = Path(__file__).parent / "recipes" / "sft-dpo.toml"
DEATH = 4  # a step of the second stage; both stages save at half of their steps
STEPS = "6"

pytestmark = pytest.mark.executes


def rehearsal(folder: Path) -> Rehearsal:
    """A launch of both stages in a sandbox below `folder`."""
    done = compile_recipe(RECIPE)
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    return prepare_launch(make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 40), 1, False, VerifyReport(""))


def start(launch: Rehearsal, name: str) -> Outcome:
    return launch.start(name, launch.sandbox.bundle.launcher, "--max-steps", STEPS)


def dies_in_the_second_stage(launch: Rehearsal) -> Outcome:
    """The first launch: the process of the second stage is killed after its first checkpoint."""
    script = launch.sandbox.bundle.root / launch.sandbox.bundle.last.folder / "train.py"
    text, call = script.read_text(), "    guard = RunGuard("
    assert call in text, "the test is out of date"
    killed = f"    trainer.add_callback(__import__('dies').Dies({DEATH}))\n{call}"
    script.write_text(text.replace(call, killed))
    script.with_name("dies.py").write_text(
        "import os\nfrom transformers import TrainerCallback\n\n\nclass Dies(TrainerCallback):\n"
        "    def __init__(self, step):\n        self.step = step\n\n"
        "    def on_step_end(self, args, state, control, **kwargs):\n"
        "        if state.global_step == self.step:\n            os._exit(1)\n"
    )
    outcome = start(launch, "killed")
    script.write_text(text)
    return outcome


def test_a_launch_goes_on_in_the_stage_that_failed(tmp_path: Path, forked: None) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    launches = {}
    for folder in (whole, stopped):
        folder.mkdir()
        launches[folder] = rehearsal(folder)
    assert (ended := start(launches[whole], "run")).ok, ended.tail()
    launch, outputs = launches[stopped], launches[stopped].sandbox.outputs
    assert not dies_in_the_second_stage(launch).ok
    first = {path: path.stat().st_mtime_ns for path in (outputs / "sft").rglob("*") if path.is_file()}
    kept = [outputs / "evaluation/sft/quick/after.json", *(outputs / "dpo").glob("checkpoint-*/run.json")]
    assert len(kept) == 2
    first |= {path: path.stat().st_mtime_ns for path in kept}

    again = start(launch, "again")

    assert again.ok, again.tail()
    said = again.text()
    assert said.count("NOT TRAINED") == 1 and said.count("not merged again") == 1
    assert said.count("is up to date and not measured again") == 4, "the three evaluations of sft, the baseline of dpo"
    assert {path: path.stat().st_mtime_ns for path in first} == first, "what was there is as it was"
    last = launch.sandbox.bundle.last
    uninterrupted = read_weights(launches[whole].sandbox.outputs / last.name, last)
    assert weight_problems(uninterrupted, read_weights(outputs / last.name, last), exact=True) == []
    result = json.loads((outputs / "sft/finished.json").read_text())["result"]
    begun = json.loads((outputs / "dpo/finished.json").read_text())["start"]
    assert begun.startswith(f"{result}, merged into the base, in ")

    for path in (outputs / "sft/finished.json", outputs / "sft/merged/finished.json"):
        path.write_text(path.read_text().replace(result, "0" * 16))  # as if sft had been trained and merged anew
    refused = start(launch, "refused")
    assert not refused.ok, "the checkpoints of dpo began with another result"
    assert f"start {begun}, here {'0' * 16}" in refused.text(), refused.tail()
