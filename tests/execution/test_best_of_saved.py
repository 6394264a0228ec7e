"""The best model is the best of those that were saved, where checkpoints are rarer than evaluations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

pytestmark = pytest.mark.executes
LOSSES = (3.0, 2.0, 1.5, 1.6, 1.55, 1.56)  # after each of six steps: the lowest has no checkpoint, 4 and 6 have one


class Scripted(Trainer):
    """Its evaluations find what the test says."""

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        metrics = {"eval_loss": LOSSES[self.state.global_step - 1]}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.weight - x).square().mean()}


@pytest.fixture
def best_of_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    recipe = with_key(BASES["lora-single"], "train.save_every", 0.4)
    bundle, folder = texts(good(tmp_path, recipe)), tmp_path / "bundle"
    assert "    best_of_saved(trainer)  # some evaluations" in bundle["train.py"]
    folder.mkdir()
    for name in ("preflight.py", "rows.py"):
        (folder / name).write_text(bundle[name])
    yield load(folder / "preflight.py", monkeypatch).best_of_saved


@pytest.mark.parametrize(("last", "loaded"), [(1.4, []), (1.7, ["checkpoint-4"])])
def test_the_last_checkpoint_is_not_loaded_where_it_is_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best_of_saved, last: float, loaded: list[str]
) -> None:
    """The model has its weights already: to read 122 GiB took 3 minutes."""
    preflight, found = sys.modules[best_of_saved.__module__], []
    monkeypatch.setitem(globals(), "LOSSES", (*LOSSES[:5], last))
    monkeypatch.setattr(
        Trainer, "_load_best_model", lambda self: found.append(Path(self.state.best_model_checkpoint).name)
    )

    def guarded(trainer: Trainer) -> None:
        guard = SimpleNamespace(trainer=trainer, run={}, pause=lambda: None)
        callback = TrainerCallback()
        callback.on_save = partial(preflight.RunGuard.on_save, guard)
        trainer.add_callback(callback)

    trained(tmp_path, best_of_saved, guarded)
    assert found == loaded
    assert json.loads((tmp_path / "out/checkpoint-6/trainer_state.json").read_text())["best_model_checkpoint"]


def trained(folder: Path, *changes: object) -> Trainer:
    args = TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=6,
        per_device_train_batch_size=1,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=3,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        report_to="none",
        use_cpu=True,
    )
    trainer = Scripted(Tiny(), args, train_dataset=[{"x": torch.ones(1)}] * 6, eval_dataset=[{"x": torch.ones(1)}])
    for change in changes:
        change(trainer)
    trainer.train()
    return trainer


def test_the_best_of_those_that_were_saved_is_loaded(tmp_path: Path, best_of_saved) -> None:
    """Of the checkpoints at 2, 4 and 6 the last has the lowest loss."""
    assert trained(tmp_path, best_of_saved).state.best_model_checkpoint.endswith("checkpoint-6")


def test_without_it_transformers_loads_an_older_one(tmp_path: Path) -> None:
    """The lowest loss is at step 3, which has no checkpoint; what was best before is what it then loads."""
    assert trained(tmp_path).state.best_model_checkpoint.endswith("checkpoint-2")


def test_where_all_evaluations_have_a_checkpoint_nothing_is_changed(tmp_path: Path) -> None:
    assert "best_of_saved" not in "".join(texts(good(tmp_path, BASES["lora-single"])).values())
