"""The emitted preflight.py refuses what it must, tried function by function."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from datasets import Dataset
from datasets.arrow_dataset import Column
from emitted_modules import load
from transformers import TrainerControl, TrainerState

from recipec.compiler import compile_recipe

DEMO = Path(__file__).parents[2] / "recipes" / "cpu-demo.toml"
RUN = {"plan": "0123456789abcdef", "max_steps": -1, "rows": "fedcba98", "ranks": 1}

pytestmark = pytest.mark.executes


@pytest.fixture(scope="module")
def preflight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder, bundle = tmp_path_factory.mktemp("bundle"), texts(compile_recipe(DEMO))
    (folder / "registry").mkdir()
    for name in ("preflight.py", "rows.py", "registry/model_card.md"):
        (folder / name).write_text(bundle[name])
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield load(folder / "preflight.py", monkeypatch)


FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json", "global_step5/rank_0.pt")


def checkpoint(folder: Path, step: int, run: dict[str, object] | None) -> Path:
    path = folder / f"checkpoint-{step}"
    for name in FILES:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("{}" * 50)
    if run is not None:
        (path / "run.json").write_text(json.dumps(run | {"files": dict.fromkeys(FILES, 100)}))
    return path


def finished(folder: Path, run: dict[str, object]) -> Path:
    """An output folder with the result of a run and its last checkpoint."""
    checkpoint(folder, 5, run)
    (folder / "finished.json").write_text(json.dumps(run | {"result": "11112222"}))
    return folder


def test_rows_that_are_not_prepared_are_asked_for(preflight: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"report\.json is missing\. Run prepare_data\.py first\.$"):
        preflight.this_run("0123456789abcdef", -1, tmp_path)


def test_the_newest_complete_checkpoint_is_resumed(preflight: ModuleType, tmp_path: Path, capsys) -> None:
    checkpoint(tmp_path, 5, RUN)
    newest = checkpoint(tmp_path, 10, RUN)
    cut_off = checkpoint(tmp_path, 15, None)

    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(newest)
    assert f"Skipping {cut_off}" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["missing", "", "{}"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_skipped(preflight: ModuleType, tmp_path: Path, name: str, damage: str, capsys) -> None:
    older, newest = checkpoint(tmp_path, 5, RUN), checkpoint(tmp_path, 10, RUN)
    (newest / name).unlink() if damage == "missing" else (newest / name).write_text(damage)

    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(older)
    assert f"Skipping {newest}, with missing or damaged files: {name}.\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="is no complete checkpoint of this run"):
        preflight.checkpoint_to_resume(tmp_path, str(newest), RUN)


@pytest.mark.parametrize("marker", ["null", "[]", json.dumps(RUN)])
def test_a_marker_that_names_no_files_is_none(preflight: ModuleType, tmp_path: Path, marker: str, capsys) -> None:
    older, newest = checkpoint(tmp_path, 5, RUN), checkpoint(tmp_path, 10, RUN)
    (newest / "run.json").write_text(marker)

    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(older)
    assert f"Skipping {newest}" in capsys.readouterr().out


def test_a_neighbor_of_another_name_is_none_of_the_checkpoints(preflight: ModuleType, tmp_path: Path) -> None:
    newest = checkpoint(tmp_path, 10, RUN)
    (tmp_path / "checkpoint-abc").mkdir()
    (tmp_path / "checkpoint-").touch()

    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(newest)
    preflight.forget_result(tmp_path, anew=True)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-abc", "checkpoint-"}


def test_a_file_in_the_place_of_a_checkpoint_is_refused(preflight: ModuleType, tmp_path: Path) -> None:
    """Training would end there, when it saves."""
    checkpoint(tmp_path, 5, RUN)
    (tmp_path / "checkpoint-10").touch()

    with pytest.raises(SystemExit, match=r"checkpoint-10 is a file where the run saves a checkpoint\. Move it away"):
        preflight.checkpoint_to_resume(tmp_path, "auto", RUN)


def test_what_is_marked_is_whole(preflight: ModuleType, tmp_path: Path) -> None:
    """On the way, and after a crash in the middle of an earlier save of this step."""
    saved, waited = checkpoint(tmp_path, 10, None), []
    (saved / "run.tmp").touch()
    accelerator = SimpleNamespace(wait_for_everyone=lambda: waited.append(True))
    guard = preflight.RunGuard(SimpleNamespace(accelerator=accelerator), RUN, anew=False)
    args = SimpleNamespace(output_dir=str(tmp_path), should_save=True)
    guard.on_save(args, SimpleNamespace(global_step=10, best_global_step=5, max_steps=20), None)

    assert waited, "a rank that is not through with its files would be damaged"
    assert json.loads((saved / "run.json").read_text())["files"] == dict.fromkeys(FILES, 100)
    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(saved)


def test_a_marker_comes_after_what_it_marks_is_on_the_disk(
    preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, a machine that loses power leaves a marker beside files of zeros."""
    output = tmp_path / "output"
    saved, flushed = checkpoint(output, 10, None), []
    monkeypatch.setattr(
        os, "fsync", lambda number: flushed.append((Path(f"/proc/self/fd/{number}").resolve(), marked()))
    )

    def marked() -> bool:
        return (saved / "run.json").exists() or (output / "finished.json").exists()

    accelerator = SimpleNamespace(wait_for_everyone=lambda: None)
    args = SimpleNamespace(output_dir=str(output), should_save=True)
    guard = preflight.RunGuard(SimpleNamespace(accelerator=accelerator, args=args), RUN, anew=False)
    guard.on_save(args, SimpleNamespace(global_step=10, best_global_step=5, max_steps=20), None)
    assert {path for path, done in flushed if not done} >= {
        output,
        saved / "run.tmp",
        *(saved / name for name in FILES),
    }
    assert flushed[-1] == (saved, True), "the name of the marker"

    (saved / "run.json").unlink()
    (output / "model.safetensors").touch()
    flushed.clear()
    guard.finish()
    assert (output / "model.safetensors", False) in flushed and flushed[-1] == (output, True)


def test_a_folder_that_cannot_be_flushed_is_passed_over_and_a_file_is_not(
    preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(number: int) -> None:
        raise OSError("not here")

    monkeypatch.setattr(os, "fsync", refused)
    preflight.flush([tmp_path])
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="not here"):
        preflight.flush([tmp_path / "file"])


def test_marking_the_result_keeps_the_lock(preflight: ModuleType, tmp_path: Path) -> None:
    preflight.lock_folder(output := tmp_path / "outputs" / "sft")
    preflight.write_whole(output / "finished.json", RUN, preflight.result_files(output))
    assert "Another run writes into" in lock_in_a_fork(preflight, output)


def lock_in_a_fork(preflight: ModuleType, output: Path) -> str:
    """What another process is told that locks the folder and ends; nothing where it has locked it."""
    said = output.parent / "said"
    said.unlink(missing_ok=True)
    if (other := os.fork()) == 0:
        try:
            preflight.lock_folder(output)
        except SystemExit as refused:
            said.write_text(str(refused))
        os._exit(0)
    os.waitpid(other, 0)
    return said.read_text() if said.exists() else ""


def test_two_runs_do_not_share_a_folder(preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "outputs" / "sft"
    output.mkdir(parents=True)
    assert not lock_in_a_fork(preflight, output)
    preflight.lock_folder(output)  # that of the process that has ended is free
    assert lock_in_a_fork(preflight, output).startswith(f"Another run writes into {output}. Wait for it")
    monkeypatch.setenv("RANK", "1")
    assert not lock_in_a_fork(preflight, output)


def test_a_child_that_outlives_its_run_keeps_no_lock(preflight: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "outputs" / "sft"
    ends, tell = os.pipe()
    if (run := os.fork()) == 0:
        preflight.lock_folder(output)
        if os.fork() == 0:
            os.close(tell)
            os.read(ends, 1)  # a worker that sees the end of the test
        os._exit(0)
    os.waitpid(run, 0)
    assert not lock_in_a_fork(preflight, output)
    os.close(tell)


@pytest.mark.parametrize("start", ["11112222", "33334444"])
def test_a_trial_is_not_continued_whatever_it_started_from(
    preflight: ModuleType, tmp_path: Path, start: str, capsys
) -> None:
    trial, run = RUN | {"max_steps": 20, "start": "11112222"}, RUN | {"start": start}
    output = finished(tmp_path, trial)

    assert not preflight.is_finished(output, "auto", run)
    assert preflight.checkpoint_to_resume(output, "auto", run) is None
    assert "its run ended at --max-steps 20" in capsys.readouterr().out


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize("steps", [-1, 1000])
def test_a_trial_does_not_begin_where_a_longer_run_is(
    preflight: ModuleType, tmp_path: Path, steps: int, is_finished: bool
) -> None:
    """Its checkpoints would take the places of the run's, and its result that of the run."""
    longer = RUN | {"max_steps": steps}
    output = finished(tmp_path, longer)
    if is_finished:
        shutil.rmtree(output / "checkpoint-5")
    else:
        (output / "finished.json").unlink()

    with pytest.raises(SystemExit, match=f"max_steps {steps}, here 20"):
        preflight.checkpoint_to_resume(output, "auto", RUN | {"max_steps": 20})


@pytest.mark.parametrize("cut_off", ["", '{"plan": "0123'])
def test_a_marker_that_was_cut_off_is_none(preflight: ModuleType, tmp_path: Path, cut_off: str, capsys) -> None:
    older, newer = checkpoint(tmp_path, 5, RUN), checkpoint(tmp_path, 10, RUN)
    (newer / "run.json").write_text(cut_off)
    (tmp_path / "finished.json").write_text(cut_off)

    assert not preflight.is_finished(tmp_path, "auto", RUN)
    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) == str(older)
    assert f"Skipping {newer}" in capsys.readouterr().out


def test_a_fresh_folder_starts_from_the_beginning(preflight: ModuleType, tmp_path: Path) -> None:
    assert preflight.checkpoint_to_resume(tmp_path, "auto", RUN) is None
    assert preflight.checkpoint_to_resume(tmp_path, "none", RUN) is None


@pytest.mark.parametrize("differs", ["plan", "rows", "ranks"])
@pytest.mark.parametrize("resume", ["auto", "named"])
def test_a_checkpoint_of_another_run_is_refused_by_name(
    preflight: ModuleType, tmp_path: Path, resume: str, differs: str
) -> None:
    other = checkpoint(tmp_path, 5, RUN | {differs: "another"})

    with pytest.raises(SystemExit, match=f"{differs} another, here {RUN[differs]}"):
        preflight.checkpoint_to_resume(tmp_path, str(other) if resume == "named" else resume, RUN)


def test_starting_over_beside_old_checkpoints_is_refused(preflight: ModuleType, tmp_path: Path) -> None:
    checkpoint(tmp_path, 5, RUN)

    with pytest.raises(SystemExit, match="or move that folder away"):
        preflight.checkpoint_to_resume(tmp_path, "none", RUN)


def test_a_finished_run_is_not_repeated_unless_asked(preflight: ModuleType, tmp_path: Path, capsys) -> None:
    output = finished(tmp_path, RUN)

    assert preflight.is_finished(output, "auto", RUN)
    assert "NOT TRAINED" in capsys.readouterr().out
    assert not preflight.is_finished(output, "none", RUN)
    assert preflight.checkpoint_to_resume(output, "none", RUN) is None


@pytest.mark.parametrize("differs", ["plan", "rows", "ranks"])
def test_the_result_of_another_run_is_not_taken_for_this_one(
    preflight: ModuleType, tmp_path: Path, differs: str
) -> None:
    output = finished(tmp_path, RUN | {differs: "another"})
    assert not preflight.is_finished(output, "auto", RUN)
    with pytest.raises(SystemExit, match=f"{differs} another, here {RUN[differs]}"):
        preflight.checkpoint_to_resume(output, "auto", RUN)


@pytest.mark.parametrize("anew", [False, True])
def test_once_training_begins_the_old_result_is_none(preflight: ModuleType, tmp_path: Path, anew: bool) -> None:
    output = finished(tmp_path, RUN)
    preflight.forget_result(output, anew)

    assert not preflight.is_finished(output, "auto", RUN)
    assert (preflight.checkpoint_to_resume(output, "auto", RUN) is None) is anew


def test_other_rows_make_another_run(preflight: ModuleType, tmp_path: Path) -> None:
    runs = []
    for digest in ("00", "00", "ff"):
        (tmp_path / "report.json").write_text(json.dumps({"train": {"sha256": digest}}))
        runs.append(preflight.this_run("0123", -1, tmp_path))
    assert runs[0] == runs[1] != runs[2]


def test_another_number_of_processes_makes_another_run(preflight: ModuleType, tmp_path: Path, monkeypatch) -> None:
    """The Trainer would take a step of 16 ranks for a step of 8, and train rows twice."""
    (tmp_path / "report.json").write_text("{}")
    monkeypatch.setenv("WORLD_SIZE", "16")
    run = preflight.this_run("0123", -1, tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert preflight.differences(run, preflight.this_run("0123", -1, tmp_path)) == "ranks 16, here 8"


def test_a_resumed_run_logs_and_saves_as_its_own_recipe_says(preflight: ModuleType, monkeypatch) -> None:
    """transformers takes the intervals from the checkpoint, whatever the arguments say."""
    for check in ("run_facts", "compare_with_plan", "try_longest", "try_save"):
        monkeypatch.setattr(preflight, check, lambda *_: {}, raising=False)
    args = SimpleNamespace(should_save=False, logging_steps=3, eval_steps=0.1, save_steps=0.2, world_size=1)
    state = TrainerState(max_steps=50, logging_steps=10, eval_steps=25, save_steps=25)
    preflight.RunGuard(trainer=SimpleNamespace(), run=RUN, anew=False).on_train_begin(args, state, None)
    assert (state.logging_steps, state.eval_steps, state.save_steps) == (3, 5, 10)


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
    checkpoint(tmp_path, 5, RUN)
    with (tmp_path / "checkpoint-5" / "model.safetensors").open("wb") as file:
        file.truncate(written_gib * 2**30)  # takes no space itself
    if fits:
        preflight.check_disk(tmp_path)
        return
    with pytest.raises(SystemExit, match=r"room for 3\.0 GiB, and this run needs 4\.5 GiB"):
        preflight.check_disk(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("key", ["loss", "eval_loss"])
def test_a_loss_that_is_no_number_ends_the_run(preflight: ModuleType, key: str, value: float) -> None:
    guard = preflight.RunGuard(trainer=SimpleNamespace(), run=RUN, anew=False)

    with pytest.raises(RuntimeError, match=f"{key} is {value} at step 7. Halve the learning rate"):
        guard.on_log(None, SimpleNamespace(global_step=7), None, {key: value})


def test_speed_is_the_tokens_of_a_rank_over_the_time_of_its_steps(
    preflight: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No evaluation, before the first step or between steps, and no save slows it; waiting for data does."""
    ranks = SimpleNamespace(args=SimpleNamespace(world_size=2))
    guard = preflight.RunGuard(trainer=ranks, run=RUN, anew=False)
    state, now = SimpleNamespace(log_history=[{}], global_step=10), [100.0]
    monkeypatch.setattr(preflight.time, "monotonic", lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    guard.began = guard.stepped = now[0]
    passes(50)
    guard.on_evaluate(None, state, SimpleNamespace(should_save=False))
    passes(10)
    guard.on_step_end(None, state, None)
    assert guard.measure({"loss": 2.0, "num_tokens": 6000.0}, state)["tokens_per_second"] == 300
    passes(30)
    guard.on_evaluate(None, state, SimpleNamespace(should_save=False))
    passes(40)
    guard.pause()  # a save
    passes(5)  # waiting for data
    passes(5)
    guard.on_step_end(None, state, None)
    state.global_step = 20
    assert guard.measure({"loss": 2.0, "num_tokens": 8000.0}, state)["tokens_per_second"] == 100


@pytest.mark.parametrize(("resumed", "said_at"), [(0, 20), (35, 60)])  # logs every 10 steps
def test_the_time_of_a_step_is_set_beside_the_plan_once(
    preflight: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys, resumed: int, said_at: int
) -> None:
    ranks = SimpleNamespace(args=SimpleNamespace(world_size=1))
    guard = preflight.RunGuard(trainer=ranks, run=RUN, anew=False)
    monkeypatch.setattr(preflight.time, "monotonic", lambda: 3 * preflight.STEP_SECONDS * state.global_step)
    state = SimpleNamespace(global_step=resumed, is_world_process_zero=True)
    guard.began, guard.logged, guard.compared = preflight.time.monotonic(), resumed, resumed + 20
    for step in range(resumed // 10 * 10 + 10, 100, 10):
        state.global_step = step
        guard.measure({"loss": 2.0, "num_tokens": 100.0 * step}, state)
        planned = f"Steps take 3 x the planned {preflight.STEP_SECONDS:g} s.\n"
        assert capsys.readouterr().out == (planned if step == said_at else "")


def test_what_is_counted_of_the_rows_is_logged_once(preflight: ModuleType) -> None:
    guard = preflight.RunGuard(trainer=SimpleNamespace(), run=RUN, anew=False)
    guard.counted = {"trained_tokens": 900, "dropped_rows": 0.01}
    state = SimpleNamespace(global_step=0, log_history=[{"step": 0}])
    logs: dict[str, float] = {"epoch": 0.0}
    guard.on_log(None, state, None, logs)
    assert logs == {"epoch": 0.0, "trained_tokens": 900, "dropped_rows": 0.01}
    assert state.log_history == [{"step": 0, "trained_tokens": 900, "dropped_rows": 0.01}]
    state.log_history.append({})
    guard.on_log(None, state, None, {"epoch": 0.1})
    assert state.log_history[-1] == {}


def test_a_run_that_is_not_the_planned_one_is_refused(preflight: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC_PER_NODE", "4")  # as a cluster exports it
    facts = dict(preflight.PLANNED)
    preflight.compare_with_plan(facts)

    with pytest.raises(SystemExit, match="world_size is 4, and the plan has 1"):
        preflight.compare_with_plan({**facts, "world_size": 4})
    monkeypatch.setenv("OTHER_RANKS", "1")
    preflight.compare_with_plan({**facts, "world_size": 4})
    with pytest.raises(SystemExit, match="distributed is ddp, and the plan has none"):
        preflight.compare_with_plan({**facts, "distributed": "ddp"})


def trainer(labels: list[list[int]]) -> SimpleNamespace:
    """A trainer of rows whose tokens are numbers; 0 ends a turn."""
    rows = Dataset.from_dict({"input_ids": [[abs(label) for label in row] for row in labels], "labels": labels})
    tokenizer = SimpleNamespace(decode=str, eos_token_id=0, eos_token="0", added_tokens_decoder={})
    return SimpleNamespace(train_dataset=rows, processing_class=tokenizer, is_world_process_zero=lambda: True)


@pytest.mark.parametrize(("loss", "tried"), [("kto", {1, 3}), ("apo_zero_unpaired", {2, 3})])
def test_the_longest_batch_holds_the_longest_of_what_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str, tried: set[int]
) -> None:
    """KTO scores prompts with the answers of other rows, too, which may be longer than every row."""
    recipe = with_key(BASES["kto"], "alignment", {"method": "kto", "loss": loss})
    bundle = texts(good(tmp_path / "recipe", with_key(recipe, "data.max_length", 512)))
    for name in ("preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "preflight.py", monkeypatch)
    lengths = [(1, 1, 1), (8, 1, 8), (6, 5, 1), (4, 8, 5)]  # of prompt, answer, and the answer of another row
    columns = {"prompt_ids": 0, "completion_ids": 1, "KL_completion_ids": 2}
    rows = [{name: [0] * row[place] for name, place in columns.items()} for row in lengths]
    rows = [row | {"length": len(row["prompt_ids"] + row["completion_ids"]), "at": at} for at, row in enumerate(rows)]
    seen: list[int] = []
    model = SimpleNamespace(train=lambda: None, zero_grad=lambda: None)
    monkeypatch.setattr(Column, "__getitem__", lambda column, key: list(column) if key == slice(None) else 1 / 0)
    module.try_longest(
        SimpleNamespace(
            model_wrapped=model,
            train_dataset=Dataset.from_list(rows),
            args=SimpleNamespace(per_device_train_batch_size=2),
            data_collator=lambda batch: seen.extend(row["at"] for row in batch),
            _prepare_inputs=lambda batch: batch,
            compute_loss_context_manager=nullcontext,
            compute_loss=lambda *_: None,
            accelerator=SimpleNamespace(backward=lambda loss: None),
            _metrics={},
        )
    )
    assert set(seen) == tried


def report(folder: Path, lost: float) -> Path:
    (folder / "report.json").write_text(json.dumps({"train": {"dropped_share": lost}}))
    return folder / "report.json"


def test_rows_that_teach_and_stop_are_shown(preflight: ModuleType, tmp_path: Path, capsys) -> None:
    counted = preflight.check_rows(trainer([[-100, 7, 8, 0]]), report(tmp_path, 0.01))
    assert counted == {"trained_tokens": 3, "dropped_rows": 0.01}
    assert "[100][[[7, 8, 0]]]" in capsys.readouterr().out


def test_rows_that_the_trainer_left_out_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """They are prepared, cut to max_length by the trainer, and then not among its rows."""
    bundle = texts(good(tmp_path, with_key(BASES["dpo-full"], "data.overflow", "truncate")))
    (tmp_path / "preflight.py").write_text(bundle["preflight.py"])
    (tmp_path / "rows.py").write_text(
        "trained_text = lambda *_: 'row'\ntrained_tokens = ends_with_stop = lambda *_: True\n"
    )
    checks, kept = load(tmp_path / "preflight.py", monkeypatch), trainer([[7, 0]] * 19)
    for prepared, lost in ((20, "5.00%"), (21, "9.52%")):
        (tmp_path / "report.json").write_text(json.dumps({"train": {"dropped_share": 0.0}}))
        if prepared == 21:
            with pytest.raises(SystemExit, match=r"9\.5% of the rows answer only after max_length"):
                checks.check_rows(kept, tmp_path / "report.json", prepared)
        else:
            checks.check_rows(kept, tmp_path / "report.json", prepared)
        assert f"dropped_rows: {lost}" in capsys.readouterr().out
    checks.check_rows(kept, report(tmp_path, 0.4), 20)  # what preparation dropped was accepted there
    assert "dropped_rows: 43.00%" in capsys.readouterr().out


@pytest.mark.parametrize(("labels", "why"), [([-100, -100], "no trained token"), ([-100, 7, 8], "never learn to stop")])
def test_rows_that_teach_nothing_or_never_stop_are_refused(
    preflight: ModuleType, tmp_path: Path, labels: list[int], why: str
) -> None:
    with pytest.raises(SystemExit, match=why):
        preflight.check_rows(trainer([labels]), report(tmp_path, 0.0))


def test_a_process_without_a_gpu_or_with_several_is_stopped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Trainer would go on: on the CPU, or with a batch that DataParallel multiplies."""
    bundle = texts(good(tmp_path / "recipe", BASES["lora-single"]))
    for name in ("preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    preflight = load(tmp_path / "preflight.py", monkeypatch)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    accelerator = preflight.torch.accelerator
    monkeypatch.setattr(accelerator, "current_accelerator", lambda check_available: None)
    with pytest.raises(SystemExit, match=r"planned for 1 x a100-80gb, and PyTorch sees no GPU\."):
        preflight.check_devices()
    monkeypatch.setattr(accelerator, "current_accelerator", lambda check_available: "cuda")
    monkeypatch.setattr(accelerator, "device_count", lambda: 2)
    with pytest.raises(SystemExit, match=r"One process sees 2 GPUs.* Start it with `bash launch/local\.sh`"):
        preflight.check_devices()
    monkeypatch.setenv("WORLD_SIZE", "2")
    preflight.check_devices()


@pytest.mark.parametrize(("token", "known"), [(511, True), (512, False)])
def test_a_row_with_a_token_that_the_model_does_not_embed_is_refused(
    preflight: ModuleType, token: int, known: bool
) -> None:
    """The tokenizer may have more tokens than the model, as that of Gemma 3 has, where no row uses them."""
    rows = Dataset.from_list([{"input_ids": [1, 2]}, {"input_ids": [3, token]}])
    words = type("Words", (), {"convert_ids_to_tokens": lambda _, token: f"<{token}>", "__len__": lambda _: 513})()
    model = SimpleNamespace(get_input_embeddings=lambda: SimpleNamespace(num_embeddings=512))
    found = SimpleNamespace(train_dataset=rows, processing_class=words, model=model)
    with nullcontext() if known else pytest.raises(SystemExit, match="Rows have the token '<512>', number 512"):
        preflight.check_tokenizer(found)


@pytest.mark.parametrize(
    ("base", "columns"),
    [
        ("dpo-full", ("prompt_ids", "chosen_ids", "rejected_ids")),
        ("kto", ("prompt_ids", "completion_ids")),
        ("reward", ("chosen_ids", "rejected_ids")),
    ],
)
def test_every_part_of_an_example_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, columns: tuple[str, ...]
) -> None:
    bundle = texts(good(tmp_path, BASES[base]))
    for name in ("preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    preflight = load(tmp_path / "preflight.py", monkeypatch)
    words = type("Words", (), {"convert_ids_to_tokens": lambda _, token: "new", "__len__": lambda _: 513})()
    model = SimpleNamespace(get_input_embeddings=lambda: SimpleNamespace(num_embeddings=512))
    for strange in columns:
        rows = Dataset.from_list([{name: [1, 512 if name == strange else 2] for name in columns} | {"label": True}])
        found = SimpleNamespace(train_dataset=rows, processing_class=words, model=model)
        with pytest.raises(SystemExit, match="Rows have the token 'new', number 512"):
            preflight.check_tokenizer(found)


@pytest.mark.parametrize("where", ["chat_template.jinja", "tokenizer_config.json"])
def test_another_chat_template_than_the_planned_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    from transformers import AutoConfig

    planned = "{% for message in messages %}{{ message.content }}</s>{% endfor %}"
    AutoConfig.for_model("qwen2", architectures=["Qwen2ForCausalLM"]).save_pretrained(tmp_path / "own")
    text = planned.replace("%}", "%}\r\n") if where.endswith("jinja") else json.dumps({"chat_template": planned})
    (tmp_path / "own" / where).write_bytes(text.encode())
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "model.name", "./own")))
    for name in ("preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    preflight = load(tmp_path / "preflight.py", monkeypatch)
    model = SimpleNamespace(get_input_embeddings=lambda: SimpleNamespace(num_embeddings=9))

    def trainer(template: str) -> SimpleNamespace:
        words = type("Words", (), {"get_chat_template": lambda _: template, "__len__": lambda _: 9})()
        return SimpleNamespace(processing_class=words, model=model)

    read = planned.replace("%}", "%}\n") if where.endswith("jinja") else planned
    preflight.check_tokenizer(trainer(read))
    with pytest.raises(SystemExit, match="The chat template is not the one that this run was planned for"):
        preflight.check_tokenizer(trainer(f"{read} "))


@pytest.mark.parametrize(
    ("losses", "epoch", "saved", "stops"),
    [
        ((), 1.5, "checkpoint-2", False),
        ((3, 2, 2.5, 2.1), 1.5, "checkpoint-2", False),
        ((3, 2, 2.5, 2.1, 2), 1.5, "checkpoint-2", True),
        ((3, 2, 2.5, 2.1, 2), 0.9, "checkpoint-2", False),  # in the first pass
        ((3, 2, 2.5, 2.1, 2), 1.5, None, False),  # nothing could be loaded
    ],
)
@pytest.mark.parametrize("moment", ["on_train_begin", "on_evaluate"])
def test_evaluations_without_progress_are_counted_whether_or_not_they_are_saved_and_after_a_resume(
    preflight: ModuleType,
    tmp_path: Path,
    losses: tuple[float, ...],
    epoch: float,
    saved: str | None,
    stops: bool,
    moment: str,
) -> None:
    """transformers 5.23 counts against the best of those that were saved, and a resumed run anew."""
    history = [logs for loss in losses for logs in ({"loss": 1.0}, {"eval_loss": loss})]
    before = TrainerState(log_history=history, epoch=epoch, best_model_checkpoint=saved)
    before.save_to_json(str(tmp_path / "trainer_state.json"))
    state, control = TrainerState.load_from_json(str(tmp_path / "trainer_state.json")), TrainerControl()
    args = SimpleNamespace(metric_for_best_model="eval_loss", greater_is_better=False)
    getattr(preflight.StopWithoutProgress(3), moment)(args, state, control)
    assert control.should_training_stop is stops
