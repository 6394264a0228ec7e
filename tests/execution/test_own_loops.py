"""Loops that train.py has itself: their losses beside the Trainer's, on one rank and on two, and what defects would do.

The defects are those of the examples in the rule books: 002, Step 1 to 3 and Step 7; 001, Checkpointing architecture.
"""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from compiling import texts
from emitted_modules import load

from recipec.bundle.build import write_bundle
from recipec.compiler import Compilation, compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.learn import into_any_folder
from recipec.verify.report import VerifyReport
from recipec.verify.run import Rehearsal, log_history, prepare_launch
from recipec.verify.sandbox import make_sandbox

DATA = Path(__file__).parent / "recipes" / "data" / "instructions.jsonl"
RECIPE = """
[recipe]
name = "own-loop"
[goal]
task = "instruct"
[model]
name = "Qwen/Qwen3-0.6B"
[data]
train = "instructions.jsonl"
[hardware]
gpu = "GPU"
gpus_per_node = RANKS
host_memory_gib = 64
[train]
MORE
adaptation = "HOW"
micro_batch_size = MICRO
global_batch_size = 8
"""
SETTINGS = SimpleNamespace(seed=17, per_device_train_batch_size=2, gradient_accumulation_steps=2)
STEPS, SAME = "5", 1e-5
WAITS = {"item", "cpu", "tolist", "numpy", "print", "float"}
ON_DEEPSPEED = ("deepspeed", 2, "rtx-4090")


def compiled(
    folder: Path,
    loop: str = "accelerate",
    ranks: int = 1,
    gpu: str = "cpu",
    more: str = "",
    adaptation: str = "full",
) -> Compilation:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(DATA, folder)
    lines = f'loop = "{loop}"\n{more}'
    recipe = RECIPE.replace("MORE", lines).replace("GPU", gpu).replace("RANKS", str(ranks)).replace("HOW", adaptation)
    recipe = recipe.replace("MICRO", str(2 // ranks))  # ranks then take the rows of one rank's micro step
    (folder / "recipe.toml").write_text(recipe)
    done = compile_recipe(folder / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    return done


def losses(folder: Path, loop: str, ranks: int = 1) -> list[dict[str, float]]:
    """What a training in fp32 logs of its steps."""
    launch = prepared(folder, loop, ranks)
    ended = launch.start("train", "launch/prepare-and-train.sh", "--max-steps", STEPS)
    assert ended.ok, ended.tail()
    return log_history(launch.sandbox.outputs / "sft")


def prepared(folder: Path, loop: str, ranks: int = 1, gpu: str = "cpu", more: str = "") -> Rehearsal:
    """A bundle in a sandbox, with a script that prepares its data and trains, and evaluates nothing."""
    done = compiled(folder / "recipe", loop, ranks, gpu, more)
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 40)
    launch = prepare_launch(sandbox, ranks, False, VerifyReport(""))
    script = sandbox.bundle.root / "launch/prepare-and-train.sh"
    text = into_any_folder((sandbox.bundle.root / sandbox.bundle.launcher).read_text())
    script.write_text("\n".join(line for line in text.splitlines() if "evaluate.py" not in line))
    return launch


def steps_of(history: list[dict[str, float]], *names: str) -> list[tuple[float, ...]]:
    return [tuple(entry[name] for name in names) for entry in history if "loss" in entry]


@pytest.mark.executes
def test_the_losses_are_those_of_the_trainer(tmp_path: Path, of_the_trainer: list[dict], forked: None) -> None:
    names = ("loss", "grad_norm", "learning_rate", "mean_token_accuracy", "num_tokens")
    runs = {
        "accelerate": losses(tmp_path / "accelerate", "accelerate"),
        "torch": losses(tmp_path / "torch", "torch"),
        "two ranks": losses(tmp_path / "ranks", "accelerate", ranks=2),
    }
    expected = steps_of(of_the_trainer, *names)
    assert len(expected) == int(STEPS)
    for name, history in runs.items():
        for step, planned in zip(steps_of(history, *names), expected, strict=True):
            assert step == pytest.approx(planned, rel=SAME, abs=SAME), name
    evaluated = {
        name: [entry["eval_loss"] for entry in history if "eval_loss" in entry] for name, history in runs.items()
    }
    assert evaluated["two ranks"] == pytest.approx(evaluated["accelerate"], rel=SAME)
    assert evaluated["torch"] == pytest.approx(evaluated["accelerate"], rel=SAME)


@pytest.mark.parametrize(("loop", "ranks", "gpu"), [("accelerate", 1, "cpu"), ("torch", 1, "cpu"), ON_DEEPSPEED])
def test_no_micro_step_waits_for_the_device(tmp_path: Path, loop: str, ranks: int, gpu: str) -> None:
    tree = ast.parse(texts(compiled(tmp_path, loop, ranks, gpu))["train.py"])
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for name in ("step", "micro_step", "passed"):
        called = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls(functions[name])}
        assert not called & WAITS, name
    assert "tolist" in {getattr(call.func, "attr", "") for call in calls(functions["log_step"])}


def calls(node: ast.AST) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def test_ranks_average_gradients_once_a_step(tmp_path: Path) -> None:
    assert "no_sync" in texts(compiled(tmp_path / "two", ranks=2))["train.py"]
    assert "no_sync" not in texts(compiled(tmp_path / "one"))["train.py"]


@pytest.mark.parametrize("loop", ["accelerate", "torch"])
def test_fp16_has_a_scaler_that_checkpoints_keep(tmp_path: Path, loop: str) -> None:
    bundle = texts(compiled(tmp_path, loop, gpu="v100-32gb", more='precision = "fp16"'))
    assert "scaler" in bundle["train.py"] and '"scaler": scaler.state_dict()' in bundle["checkpoints.py"]
    assert "schedule.step()" in bundle["train.py"].partition("skipped" if loop == "accelerate" else "left out")[2]


def test_a_tracker_is_told_of_the_run(tmp_path: Path) -> None:
    train = texts(compiled(tmp_path))["train.py"]
    assert "init_trackers(" in train and "log_with=settings.report_to" in train


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """The emitted batches.py and checkpoints.py."""
    for name, text in texts(compiled(tmp_path / "recipe")).items():
        if name.endswith(".py"):
            (tmp_path / name).write_text(text)
    return {name: load(tmp_path / f"{name}.py", monkeypatch) for name in ("batches", "checkpoints")}


@pytest.mark.executes
def test_every_rank_takes_other_rows_and_as_many_micro_batches(modules) -> None:
    batches = modules["batches"]
    for rows in (16, 13, 3, 1):
        shares = [batches.share(list(range(rows)), 2, rank, 2) for rank in range(2)]
        assert len(shares[0]) == len(shares[1])
        assert sorted(row for share in shares for places in share for row in places) == list(range(rows))


@pytest.mark.executes
def test_lengths_are_read_as_a_list_once(modules) -> None:
    """One value at a time, a column of datasets searches its record batches for each."""
    from datasets import Dataset
    from datasets.arrow_dataset import Column

    batches, settings = modules["batches"], SimpleNamespace(**vars(SETTINGS), per_device_eval_batch_size=2)
    vars(settings).update(dataloader_num_workers=0, dataloader_pin_memory=False, dataloader_prefetch_factor=None)
    lengths, tokenizer = [3, 9, 4, 8, 2], SimpleNamespace(pad_token_id=0)
    rows = Dataset.from_list([{"input_ids": [1] * many, "labels": [1] * many, "length": many} for many in lengths])
    with mock.patch.object(Column, "__getitem__", autospec=True, side_effect=Column.__getitem__) as read:
        evaluated = list(batches.evaluation_batches(rows, tokenizer, settings, 0, 1))
        next(batches.steps(rows, tokenizer, settings, 0, 1, 0))
    assert [call.args[1] for call in read.call_args_list] == [slice(None)] * 2
    assert [len(batch["input_ids"][0]) for batch in evaluated] == [9, 4, 2]


@pytest.mark.executes
def test_what_fills_a_rank_teaches_nothing(modules) -> None:
    import torch

    empty = modules["batches"].MicroBatches([], [[]], pad_token=7)[0]
    assert modules["batches"].trained_tokens([empty]) == 0
    logits, labels = torch.zeros(1, 1, 4), empty["labels"]
    assert torch.nn.functional.cross_entropy(logits.view(-1, 4), labels.view(-1), reduction="sum") == 0


@pytest.mark.executes
def test_an_epoch_has_every_row_once_and_the_next_another_order(modules) -> None:
    order, lengths = modules["batches"].epoch_order, [3, 9, 4, 4, 8, 2, 7, 1, 5, 6, 6]
    epochs = [order(lengths, SETTINGS, 1, epoch) for epoch in (0, 1, 0)]
    assert [sorted(row for step in epoch for row in step) for epoch in epochs] == [list(range(11))] * 3
    assert epochs[0] == epochs[2] != epochs[1]
    assert 1 in epochs[0][0], "the longest row is in the first step"


@pytest.mark.executes
@pytest.mark.parametrize("ranks", [1, 2])
def test_micro_steps_are_of_like_length_and_a_step_mixes_them(modules, ranks) -> None:
    lengths = [5 + (37 * number) % 301 for number in range(1536)]
    settings = SimpleNamespace(seed=17, per_device_train_batch_size=4 // ranks, gradient_accumulation_steps=16)
    steps = modules["batches"].epoch_order(lengths, settings, ranks, 1)
    micro_steps = [rows[start : start + 4] for rows in steps for start in range(0, len(rows), 4)]
    longest = [max(lengths[row] for row in rows) for rows in micro_steps]
    assert 4 * sum(longest) < 1.1 * sum(lengths)
    tokens = [sum(lengths[row] for row in rows) for rows in steps]
    assert {len(rows) for rows in steps} == {64} and max(tokens) < 3 * min(tokens)


@pytest.mark.executes
def test_neither_the_newest_nor_the_best_checkpoint_is_deleted(tmp_path: Path, modules) -> None:
    for step in (10, 20, 30, 40):
        (tmp_path / "outputs" / f"checkpoint-{step}").mkdir(parents=True)
    modules["checkpoints"].delete_old(tmp_path / "outputs", 2, best=10)
    assert sorted(path.name for path in (tmp_path / "outputs").iterdir()) == ["checkpoint-10", "checkpoint-40"]


@pytest.mark.executes
def test_a_checkpoint_has_all_that_the_next_step_depends_on(tmp_path: Path, modules) -> None:
    import torch

    checkpoints = modules["checkpoints"]

    def made(seed: int):
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    def learn(model, optimizer, schedule) -> None:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    whole = made(1)
    learn(*whole)
    progress = checkpoints.Progress(global_step=1, best_metric=0.5, log_history=[{"loss": 1.0}])
    checkpoints.save_checkpoint(tmp_path / "checkpoint-1", *whole, progress)
    learn(*whole)
    resumed = made(2)
    assert checkpoints.load_checkpoint(tmp_path / "checkpoint-1", *resumed) == progress
    learn(*resumed)
    assert all(map(torch.equal, whole[0].parameters(), resumed[0].parameters()))
    assert whole[2].get_last_lr() == resumed[2].get_last_lr()
    assert json.loads((tmp_path / "checkpoint-1/trainer_state.json").read_text())["global_step"] == 1
