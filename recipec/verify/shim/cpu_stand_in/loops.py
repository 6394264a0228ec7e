"""The same for a train.py that has its steps itself: its values are in settings.py, its rows come from batches.py.

The names of the patches are those of a Trainer's bundle, where one is needed for both.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from cpu_stand_in.learning import PROBE_TOKENS, _digests, write_counts
from cpu_stand_in.witness import own_training


def arguments(module, values):
    """Make the settings with these values, where they have them; a tracker that is not there is none."""
    _changed(module, lambda given: {name: None if value == "none" else value for name, value in values.items()})


def script_arguments(module, scripts):
    """The same for the values of one script: {its path in the bundle: {name: value}}."""
    running = Path(sys.argv[0]).resolve().as_posix()
    own = next((values for path, values in scripts.items() if running.endswith(f"/{path}")), {})
    _changed(module, lambda given: own)


def limits(module, values):
    """Lower values that are above these."""
    _changed(module, lambda given: {name: min(most, given[name]) for name, most in values.items() if name in given})


def _changed(module, changes):
    make = module.Settings.__init__

    def __init__(self, **given):
        make(self, **given | {name: value for name, value in changes(given).items() if name in given})

    module.Settings.__init__ = __init__


def learned_tokens(module, scripts):
    """As for a Trainer: what the rows teach that are trained on, and what evaluation takes those of the file to."""
    how = {"answers": [()], "all": False}

    def count(rows, tokenizer, settings, rank):
        if not rank:
            write_counts(settings.output_dir, {"train": rows}, _Run(tokenizer, settings), how)

    _before_steps(module, count)


class _Run:
    """What counting asks of a Trainer."""

    def __init__(self, tokenizer, settings):
        self.processing_class, self.args = tokenizer, settings


def first_step(module, value):
    """As for a Trainer: the types of what the optimizer changes."""

    def watch(rows, tokenizer, settings, rank):
        if not rank:
            register = sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook
            register(lambda optimizer, *given: _note_types(optimizer, Path(settings.output_dir, "first_step.json")))

    _before_steps(module, watch)


def _note_types(optimizer, file):
    if not file.is_file():
        tensors = (tensor for group in optimizer.param_groups for tensor in group["params"])
        types = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
        file.write_text(json.dumps({name: types.count(name) for name in sorted({*types})}))


def _before_steps(module, notice):
    make = module.steps

    def steps(rows, tokenizer, settings, rank, ranks, done):
        notice(rows, tokenizer, settings, rank)
        return make(rows, tokenizer, settings, rank, ranks, done)

    module.steps = steps


def noted_rows(module, prefix):
    """As for a Trainer: the rows of every micro step, by digests of their tokens."""

    def note(step, rank, batches):
        with Path(f"{prefix}-{rank}").open("a") as file:
            for batch in batches:
                print(json.dumps({"step": step, "rows": _digests(batch)}), file=file)

    _at_each_step(module, note)


def die_after(module, last):
    """Kill this process without warning when optimizer step `last` and what belongs to it are done."""

    def die(step, rank, batches):
        if step >= last:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_each_step(module, die)


def _at_each_step(module, notice):
    make = module.steps

    def steps(rows, tokenizer, settings, rank, ranks, done):
        for step, batches in enumerate(make(rows, tokenizer, settings, rank, ranks, done), start=done):
            notice(step, rank, batches)
            yield batches

    module.steps = steps


def final_logits(module, folder):
    """As for a Trainer: the logits of the result on fixed tokens, to FOLDER/NAME_OF_OUTPUT_FOLDER.json."""
    save = module.save_result

    def save_result(model, tokenizer, target):
        if Path(target).name != "save-test":
            logits = _logits(model)  # of shards, on all ranks together
            if os.environ.get("RANK", "0") == "0":
                Path(folder, f"{Path(target).name}.json").write_text(json.dumps(logits))
        save(model, tokenizer, target)

    module.save_result = save_result


def _logits(model):
    import torch

    model.eval()
    tokens = torch.arange(10, 10 + PROBE_TOKENS, device=next(model.parameters()).device)[None]
    with torch.no_grad():
        return model(input_ids=tokens).logits[0, -1].float().tolist()


PATCHES = {
    "arguments": ("settings", arguments),
    "script-arguments": ("settings", script_arguments),
    "limits": ("settings", limits),
    "learned-tokens": ("batches", learned_tokens),
    "first-step": ("batches", first_step),
    "noted-rows": ("batches", noted_rows),
    "die-after": ("batches", die_after),
    "final-logits": ("checkpoints", final_logits),
    "witness": ("batches", own_training),
}
