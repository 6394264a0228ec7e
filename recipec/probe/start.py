"""How long a process takes until it has imported what training imports, and what memory it then has."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import Any

from recipec.probe.timing import figure

REPEATS = 2
# What the emitted train.py of every stage imports, as far as it is installed. The peak of the process stands in /proc:
# getrusage hands down that of the process which started it.
_IMPORTS = r"""
import importlib.util, re
for name in ("torch", "transformers", "datasets", "trl"):
    if importlib.util.find_spec(name):
        importlib.import_module(name)
if importlib.util.find_spec("trl"):
    from trl import SFTTrainer
else:
    from transformers import Trainer
print(int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 2**20)
"""


def measure() -> dict[str, Any]:
    """The table `process`: seconds to start, and GiB of the process then."""
    seconds, gib = [], []
    for _ in range(REPEATS):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", _IMPORTS], check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - started)
        gib.append(float(done.stdout.split()[-1]))
    return {"start_seconds": figure(seconds), "started_gib": median(gib)}
