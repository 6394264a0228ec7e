"""trainer_config.py TRAIN_PY PLANNED: build the configuration that a train.py defines; print problems as JSON.

The class checks every argument; PLANNED (a JSON object) is then compared with what was built.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import warnings
from pathlib import Path


def problems(script: str, planned: dict) -> list[str]:
    """What differs between the configuration that `script` builds and the plan."""
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
    return differing + [f"deprecated: {text}" for text in ours]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = problems(sys.argv[1], json.loads(sys.argv[2]))
    print(json.dumps(answer))
