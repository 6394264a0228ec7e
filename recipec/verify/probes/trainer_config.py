"""trainer_config.py TRAIN_PY PLANNED: build the configuration that a train.py defines; print what is found as JSON.

The class checks every argument; what PLANNED (a JSON object) says of them is then compared with what was built. The
configuration's own schedule says which learning rates the planned optimizer steps have, and the trackers' own callbacks
say what project and run they would begin.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import warnings
from pathlib import Path

from trackers import tracker_problems
from transformers import TrainingArguments

MOST_STEPS = 1_000  # looked at: a warmup that is longer than the run shows in fewer


def found(script: str, planned: dict) -> dict[str, list[str] | str]:
    """Problems of the configuration that `script` builds, of its learning rates, and of what trackers are told."""
    TrainingArguments.world_size = property(lambda _: planned["processes"])  # of which TRL makes whole generations
    sys.path.insert(0, str(Path(script).parent))  # as `python train.py` does
    spec = importlib.util.spec_from_file_location("emitted_train", script)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", FutureWarning)
        try:
            spec.loader.exec_module(module)
            built = module.training_config(argparse.Namespace(output_dir=Path("outputs"), max_steps=-1, resume="none"))
        except Exception as error:
            return {"configuration": [f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"]}
    rates = learning_rates(built, planned["steps"])
    return {
        "configuration": _differing(built, planned["arguments"], script, warned),
        "rates": rate_problems(rates, built.get_warmup_steps(planned["steps"]), planned["steps"]),
        "rates seen": f"the learning rate begins at {rates[0]:.3g}, is at most {max(rates):.3g} and {rates[-1]:.3g} "
        f"in step {len(rates)} of {planned['steps']}",
        "trackers": tracker_problems(built, planned["tracking"]),
    }


def _differing(built: TrainingArguments, planned: dict, script: str, warned: list) -> list[str]:
    """Values other than the planned ones, and arguments that are deprecated."""
    ours = [
        str(entry.message) for entry in warned if "emitted_train" in str(entry.filename) or entry.filename == script
    ]
    wrong = {name: value for name, value in planned.items() if getattr(built, name) != value}
    differing = [f"{name} is {getattr(built, name)}, the plan says {value}" for name, value in wrong.items()]
    return [*differing, *(f"deprecated: {text}" for text in ours)]


def learning_rates(config: TrainingArguments, steps: int) -> list[float]:
    """The rates of the first steps of a run of so many, by the schedule that the trainer would make."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.zeros(1)], lr=config.learning_rate)
    warmup, own = config.get_warmup_steps(steps), config.lr_scheduler_kwargs or {}
    schedule = get_scheduler(config.lr_scheduler_type, optimizer, warmup, steps, scheduler_specific_kwargs=own)
    rates = []
    for _ in range(min(steps, MOST_STEPS)):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def rate_problems(rates: list[float], warmup: int, steps: int) -> list[str]:
    """Learning rates of 0 alone, which change no weight, and a warmup that never ends."""
    cure = "lower warmup_steps in train.py, or train for more steps"
    if not any(rates):
        return [
            f"every learning rate of the planned steps ({steps}) is 0, so that no weight changes: the warmup has "
            f"{warmup}; {cure}"
        ]
    if warmup >= steps:
        return [f"the warmup has {warmup} of the planned steps ({steps}): the rate never reaches its peak; {cure}"]
    return []


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = found(sys.argv[1], json.loads(sys.argv[2]))
    print(json.dumps(answer))
