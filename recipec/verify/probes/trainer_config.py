"""trainer_config.py TRAIN_PY PLANNED STEPS: build the configuration that a train.py defines; print problems as JSON.

The class checks every argument; PLANNED (a JSON object) is then compared with what was built, and its own schedule
says which learning rates the planned number of optimizer steps has.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import warnings
from pathlib import Path

MOST_STEPS = 1_000  # looked at: a warmup that is longer than the run shows in fewer


def problems(script: str, planned: dict, steps: int) -> list[str]:
    """What differs between the configuration that `script` builds and the plan, and what it cannot learn with."""
    sys.path.insert(0, str(Path(script).parent))  # as `python train.py` does
    spec = importlib.util.spec_from_file_location("emitted_train", script)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", FutureWarning)
        try:
            spec.loader.exec_module(module)
            built = module.training_config(argparse.Namespace(output_dir=Path("outputs"), max_steps=-1, resume="none"))
        except Exception as error:
            return [f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"]
    ours = [
        str(entry.message) for entry in warned if "emitted_train" in str(entry.filename) or entry.filename == script
    ]
    wrong = {name: value for name, value in planned.items() if getattr(built, name) != value}
    differing = [f"{name} is {getattr(built, name)}, the plan says {value}" for name, value in wrong.items()]
    return [*differing, *(f"deprecated: {text}" for text in ours), *_rate_problems(built, steps)]


def _rate_problems(config, steps: int) -> list[str]:
    """Learning rates of 0 alone, which change no weight, and a warmup that never ends."""
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
    run = f"of the {steps} planned steps" if steps > 1 else "of the one planned step"
    if not any(rates):
        return [f"every learning rate {run} is 0, so that no weight changes: the warmup has {warmup}"]
    return [f"the warmup has {warmup} {run}: the learning rate never reaches its peak"] if warmup >= steps else []


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = problems(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(answer))
