"""A bundle whose ranks fit on this machine is started as a user starts it, so that what its script says is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import ROWS, prepare_launch, ranks_for, run_bundle
from recipec.verify.sandbox import make_sandbox

RECIPE = Path(__file__).parent / "recipes" / "sft-dpo.toml"


def two_stages(folder: Path) -> Path:
    """A bundle of two stages on two GPUs each."""
    text = RECIPE.read_text(encoding="utf-8")
    hardware = 'gpu = "rtx-4090"\ngpus_per_node = 2\n\n[train]\nstrategy = "ddp"\nmicro_batch_size = 8'
    (folder / "recipe.toml").write_text(text.replace('gpu = "rtx-4090"', hardware), encoding="utf-8")
    (folder / "data").symlink_to(RECIPE.parent / "data")
    done = compile_recipe(folder / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    return folder / "out"


def plan_on_one_rank(out: Path) -> None:
    """The second stage is planned on one rank, and its checks know it; the launch script goes on saying two."""
    plan = out / ".recipec" / "plan.json"
    document = json.loads(plan.read_text(encoding="utf-8"))
    choice = document["stages"][1]["choice"]
    choice |= {"world_size": 1, "global_batch_size": choice["global_batch_size"] // 2}
    plan.write_text(json.dumps(document), encoding="utf-8")
    preflight = out / "stages" / "2-dpo" / "preflight.py"
    text = preflight.read_text(encoding="utf-8")
    assert '"world_size": 2' in text, "the test is out of date"
    preflight.write_text(text.replace('"world_size": 2', '"world_size": 1'), encoding="utf-8")


def run(out: Path, folder: Path) -> VerifyReport:
    bundle, report = read_bundle(out), VerifyReport("run")
    folder.mkdir()
    run_bundle(prepare_launch(make_sandbox(bundle, folder, ROWS), ranks_for(bundle, None), False, report), report)
    return report


@pytest.mark.executes
@pytest.mark.matrix
def test_a_second_stage_that_is_launched_with_the_ranks_of_the_first_is_found(tmp_path: Path, forked: None) -> None:
    out = two_stages(tmp_path)
    plan_on_one_rank(out)
    launched, *_ = run(out, tmp_path / "sandbox").checks
    assert not launched.ok
    assert "world_size is 2, and the plan has 1" in launched.detail


def test_only_what_differs_from_the_plan_is_told(tmp_path: Path) -> None:
    bundle = read_bundle(two_stages(tmp_path))
    (tmp_path / "sandbox").mkdir()
    sandbox = make_sandbox(bundle, tmp_path / "sandbox", ROWS)
    told = {ranks: prepare_launch(sandbox, ranks, False, VerifyReport("run")).told for ranks in (1, 2)}
    assert told[2] == {}
    assert told[1]["NPROC_PER_NODE"] == "1"
    assert not {"NPROC_PER_NODE", "NNODES", "SHARDS"} & sandbox.environment({}).keys()
