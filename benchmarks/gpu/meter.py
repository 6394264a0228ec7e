"""What one run measures of itself: memory at the callbacks of Trainer, seconds and tokens of each step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import transformers
from msgspec import Struct, field
from msgspec.structs import asdict
from transformers import Trainer, TrainerCallback, TrainingArguments


class Measured(Struct):
    """Bytes, seconds and tokens of one run."""

    status: str = "started"
    longest_tokens: int = 0  # of the training rows
    loaded_bytes: int = 0  # allocated when the trainer is made
    load_peak_bytes: int = 0
    evaluation_peak_bytes: int = 0  # the peak so far when the first evaluation has ended
    gradients_bytes: int = 0  # allocated when the first backward pass has ended
    states_bytes: int = 0  # allocated when the first optimizer step has ended
    peak_bytes: int = 0
    reserved_bytes: int = 0
    outside_bytes: int = 0  # of the device, in use and not torch's
    capacity_bytes: int = 0
    step_seconds: list[float] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)  # padding included
    losses: list[float] = field(default_factory=list)
    stage_peaks: dict[str, int] = field(default_factory=dict)


class Meter(TrainerCallback):
    """Fills `measured` as a run goes on; never resets the peak, which train.py prints at its end."""

    def __init__(self, measured: Measured) -> None:
        self.measured, self.tokens, self.began = measured, 0, 0.0
        self.rows = None

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.measured.longest_tokens = self.longest()
        self.measured.loaded_bytes = torch.cuda.memory_allocated()
        self.measured.load_peak_bytes = torch.cuda.max_memory_allocated()

    def on_evaluate(self, args, state, control, **kwargs) -> None:
        self.measured.evaluation_peak_bytes = self.measured.evaluation_peak_bytes or torch.cuda.max_memory_allocated()

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        torch.cuda.synchronize()
        self.began, self.tokens = time.perf_counter(), 0

    def on_pre_optimizer_step(self, args, state, control, **kwargs) -> None:
        self.measured.gradients_bytes = self.measured.gradients_bytes or torch.cuda.memory_allocated()
        self.measured.stage_peaks.setdefault("backward", torch.cuda.max_memory_allocated())

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        self.measured.states_bytes = self.measured.states_bytes or torch.cuda.memory_allocated()
        self.measured.stage_peaks.setdefault("optimizer_step", torch.cuda.max_memory_allocated())

    def on_step_end(self, args, state, control, **kwargs) -> None:
        torch.cuda.synchronize()
        self.measured.step_seconds.append(time.perf_counter() - self.began)
        self.measured.step_tokens.append(self.tokens)

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        if "loss" in (logs or {}):
            self.measured.losses.append(logs["loss"])

    def longest(self) -> int:
        """Tokens of the longest sequence that the trainer will see."""
        answers = [name for name in ("chosen_ids", "rejected_ids") if name in self.rows.column_names]
        first = "prompt_ids" if answers else "input_ids"
        columns = [[len(row) for row in self.rows[name]] for name in (first, *answers)]
        return max(
            columns[0][row] + max((column[row] for column in columns[1:]), default=0) for row in range(len(self.rows))
        )

    def ended(self) -> None:
        """What is known when the process is about to end, or has run out of memory."""
        free, total = torch.cuda.mem_get_info()
        self.measured.peak_bytes = torch.cuda.max_memory_allocated()
        self.measured.reserved_bytes = torch.cuda.max_memory_reserved()
        self.measured.outside_bytes = total - free - torch.cuda.memory_reserved()
        self.measured.capacity_bytes = total

    def document(self) -> dict[str, Any]:
        return asdict(self.measured)


def attach(meter: Meter, rows: int | None) -> None:
    """Have every Trainer carry `meter` and save nothing; `rows` replaces the micro batch.

    A checkpoint of 8 billion parameters and their states is 96 GB of disk and says nothing of the GPU.
    """
    made, steps, checked = Trainer.__init__, Trainer.training_step, TrainingArguments.__post_init__

    def make(self, *args, **kwargs) -> None:
        made(self, *args, **kwargs)
        meter.rows = self.train_dataset
        self.add_callback(meter)

    def step(self, model, inputs, *args, **kwargs):
        meter.tokens += sum(value.numel() for name, value in inputs.items() if name.endswith("input_ids"))
        return steps(self, model, inputs, *args, **kwargs)

    def check(self) -> None:
        if rows is not None:
            self.per_device_train_batch_size, self.gradient_accumulation_steps = rows, 1
            self.per_device_eval_batch_size = min(rows, self.per_device_eval_batch_size)
        checked(self)

    Trainer.__init__, Trainer.training_step, TrainingArguments.__post_init__ = make, step, check
    Trainer._save_checkpoint, Trainer.save_model = _mark_checkpoint, lambda self, *args, **kwargs: None
    Trainer._load_best_model = lambda self: None
    transformers.logging.set_verbosity_error()


def _mark_checkpoint(self, model, trial) -> None:
    """The folder in which the bundle's preflight notes that a checkpoint is complete."""
    Path(self.args.output_dir, f"checkpoint-{self.state.global_step}").mkdir(parents=True)
