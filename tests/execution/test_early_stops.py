"""Early stopping in loops of train.py's own: a curve of losses, played through the emitted evaluation and training."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from compiling import BASES, good, texts, with_key
from emitted_modules import load

pytestmark = pytest.mark.executes

BEST_AT_8 = [1.2, 1.1, 1.05, 1.0, 0.97, 0.95, 0.93, 0.9, *(0.9 + n / 50 for n in range(1, 13))]
RISES = [1.0 + n / 50 for n in range(20)]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    recipe = with_key(BASES["lora-single"], "train", {"loop": "torch", "early_stopping_patience": 3})
    for name, text in texts(good(tmp_path, recipe)).items():
        if name.endswith(".py"):
            (tmp_path / name).write_text(text)
    return load(tmp_path / "train.py", monkeypatch)


def played(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, curve: Sequence[float], save_every: int, before: Any = None
) -> Any:
    """The training of a rank that writes nothing: three epochs, with one step and one evaluation for each loss."""
    run = object.__new__(module.Training)
    run.settings = SimpleNamespace(early_stopping_patience=3, logging_steps=99)
    run.progress, run.rows, run.model = before or module.Progress(), {"train": [], "eval": []}, torch.nn.Module()
    run.tokenizer, run.device, run.rank, run.ranks, run.began = None, torch.device("cpu"), 1, 2, 0.0
    run.total_steps, run.eval_every, run.save_every, run.output_dir = len(curve), 1, save_every, Path()
    losses = iter(curve[run.progress.global_step :])

    def step(_: object) -> None:
        run.progress.global_step += 1
        run.progress.epoch = 3 * run.progress.global_step / len(curve)

    monkeypatch.setattr(module, "steps", lambda *_: iter([None] * len(curve)))
    monkeypatch.setattr(module, "evaluation_batches", lambda *_: [None])
    run.passed = lambda _: (torch.tensor(next(losses, 9.0), dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    run.step, run.log_step = step, lambda: None
    run.record = lambda entry: run.progress.log_history.append(entry)
    if not run.progress.global_step:
        run.progress.log_history.append({"eval_loss": 1.5})  # the baseline
        monkeypatch.setattr(module.Training, "evaluate", once_skipped(module.Training.evaluate))
    run.train()
    return run.progress


def once_skipped(evaluate: Any) -> Any:
    """Without the first call, which makes the baseline."""
    calls: list[None] = []

    def counted(self: Any) -> None:
        calls.append(None)
        if len(calls) > 1:
            evaluate(self)

    return counted


@pytest.mark.parametrize(("best", "loaded"), [(10, ["checkpoint-10"]), (20, []), (0, [])])
def test_weights_that_the_model_has_are_not_loaded(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, best: int, loaded: list[str]
) -> None:
    """At step 20: those of the best checkpoint, unless that is this step's, or none was written."""
    run, found = object.__new__(module.Training), []
    run.settings, run.rank, run.output_dir = SimpleNamespace(load_best_model_at_end=True), 1, Path()
    run.progress, run.plain_model = module.Progress(global_step=20, best_global_step=best), None
    monkeypatch.setattr(module, "load_weights", lambda folder, model: found.append(folder.name))
    run.finish()
    assert found == loaded


def test_an_interval_of_0_is_never_due(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Training, "save", None)
    assert played(module, monkeypatch, RISES, 0).global_step == len(RISES), "none to go back to"


@pytest.mark.parametrize(
    ("curve", "save_every", "last"),
    [(BEST_AT_8, 1, 11), (BEST_AT_8, 10, 11), (RISES, 1, 7), (RISES, 10, 10)],
    ids=["each is saved", "half are", "from the first on", "none before the tenth"],
)
def test_a_run_stops_after_the_lowest_loss_whatever_is_saved(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, curve: list[float], save_every: int, last: int
) -> None:
    """Three evaluations without a lower loss, not in the first epoch, and not before there are weights to load."""
    assert played(module, monkeypatch, curve, save_every).global_step == last


def test_a_resumed_run_counts_the_evaluations_before_it(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    first = played(module, monkeypatch, BEST_AT_8[:10], 10)
    assert first.global_step == 10 and first.evaluations_without_progress == 2
    kept = module.Progress(**json.loads(json.dumps(dataclasses.asdict(first))))
    assert played(module, monkeypatch, BEST_AT_8, 10, kept).global_step == 11


def test_a_checkpoint_of_an_older_train_py_is_read(module: ModuleType, tmp_path: Path) -> None:
    """Fields that it kept, and that are computed or gone by now, are passed over."""
    model, saved = torch.nn.Linear(2, 2), module.Progress(global_step=10, num_tokens=99, best_global_step=8)
    optimizer = torch.optim.AdamW(model.parameters())
    states = model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer)
    module.save_checkpoint(tmp_path / "checkpoint-10", *states, saved)
    log = tmp_path / "checkpoint-10" / "trainer_state.json"
    log.write_text(json.dumps(json.loads(log.read_text()) | {"evaluations_without_progress": 2}))
    assert module.load_checkpoint(log.parent, *states) == saved
