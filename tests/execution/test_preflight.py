"""The emitted preflight.py refuses what it must, tried function by function."""

from __future__ import annotations

import importlib.util
import math
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from compiling import texts

from recipec.compiler import compile_recipe

DEMO = Path(__file__).parents[2] / "recipes" / "cpu-demo.toml"
PLAN = "0123456789abcdef"

pytestmark = pytest.mark.executes


@pytest.fixture(scope="module")
def preflight(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    emitted = tmp_path_factory.mktemp("bundle") / "preflight.py"
    emitted.write_text(texts(compile_recipe(DEMO))["preflight.py"])
    spec = importlib.util.spec_from_file_location("emitted_preflight", emitted)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkpoint(folder: Path, step: int, plan: str | None, steps: int = -1) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    if plan is not None:
        (path / "plan.txt").write_text(f"{plan} {steps}")
    return path


def test_the_newest_complete_checkpoint_is_resumed(preflight: ModuleType, tmp_path: Path, capsys) -> None:
    checkpoint(tmp_path, 5, PLAN)
    newest = checkpoint(tmp_path, 10, PLAN)
    cut_off = checkpoint(tmp_path, 15, None)

    assert preflight.checkpoint_to_resume(tmp_path, "auto", PLAN, -1) == str(newest)
    assert f"skipping {cut_off}" in capsys.readouterr().out


def test_a_checkpoint_of_a_short_run_is_not_continued(preflight: ModuleType, tmp_path: Path, capsys) -> None:
    checkpoint(tmp_path, 20, PLAN, steps=20)

    assert preflight.checkpoint_to_resume(tmp_path, "auto", PLAN, -1) is None
    assert "its run had --max-steps 20" in capsys.readouterr().out


def test_a_fresh_folder_starts_from_the_beginning(preflight: ModuleType, tmp_path: Path) -> None:
    assert preflight.checkpoint_to_resume(tmp_path, "auto", PLAN, -1) is None
    assert preflight.checkpoint_to_resume(tmp_path, "none", PLAN, -1) is None


@pytest.mark.parametrize("resume", ["auto", "named"])
def test_a_checkpoint_of_another_plan_is_refused_by_name(preflight: ModuleType, tmp_path: Path, resume: str) -> None:
    other = checkpoint(tmp_path, 5, "another plan")

    with pytest.raises(SystemExit, match="another plan"):
        preflight.checkpoint_to_resume(tmp_path, str(other) if resume == "named" else resume, PLAN, -1)


def test_starting_over_beside_old_checkpoints_is_refused(preflight: ModuleType, tmp_path: Path) -> None:
    checkpoint(tmp_path, 5, PLAN)

    with pytest.raises(SystemExit, match="fresh --output-dir"):
        preflight.checkpoint_to_resume(tmp_path, "none", PLAN, -1)


@pytest.mark.parametrize(("free_gib", "written_gib", "fits"), [(5, 0, True), (3, 0, False), (3, 2, True)])
def test_a_disk_that_the_run_would_fill_is_refused(
    preflight: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_gib: int,
    written_gib: int,
    fits: bool,
) -> None:
    monkeypatch.setattr(preflight, "DISK_GIB", 4.5)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_gib * 2**30))
    checkpoint(tmp_path, 5, PLAN)
    with (tmp_path / "checkpoint-5" / "model.safetensors").open("wb") as file:
        file.truncate(written_gib * 2**30)  # takes no space itself
    if fits:
        preflight.check_disk(tmp_path)
        return
    with pytest.raises(SystemExit, match=r"room for 3\.0 GiB, this run writes 4\.5 GiB"):
        preflight.check_disk(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("key", ["loss", "eval_loss"])
def test_a_loss_that_is_no_number_ends_the_run(preflight: ModuleType, key: str, value: float) -> None:
    guard = preflight.RunGuard(trainer=None, plan=PLAN, max_steps=-1)

    with pytest.raises(RuntimeError, match=f"{key} is {value} at step 7: halve the learning rate"):
        guard.on_log(None, SimpleNamespace(global_step=7), None, {key: value})


def test_a_run_that_is_not_the_planned_one_is_refused(preflight: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC_PER_NODE", raising=False)
    facts = dict(preflight.PLANNED)
    preflight.compare_with_plan(facts)

    with pytest.raises(SystemExit, match="world_size is 4, planned: 1"):
        preflight.compare_with_plan({**facts, "world_size": 4})
    monkeypatch.setenv("NPROC_PER_NODE", "4")
    preflight.compare_with_plan({**facts, "world_size": 4})
    with pytest.raises(SystemExit, match="distributed is ddp, planned: none"):
        preflight.compare_with_plan({**facts, "distributed": "ddp"})
