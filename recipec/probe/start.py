"""How long a process takes until it has imported what training imports, and its memory once it trains."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import Any

from recipec.probe.timing import figure

REPEATS = 2
# What the emitted train.py of every stage imports, as far as it is installed, and a step of a model without size. The
# peak of the process stands in /proc: getrusage hands down that of the process which started it.
_STARTED = r"""
import importlib.util, re, sys, tempfile, time
for name in ("torch", "transformers", "datasets", "trl"):
    if importlib.util.find_spec(name):
        importlib.import_module(name)
if importlib.util.find_spec("trl"):
    from trl import SFTTrainer
else:
    from transformers import Trainer
imported = time.time()
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=8)
rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, max_steps=1, use_cpu=True, report_to=[], save_strategy="no")
    Trainer(LlamaForCausalLM(LlamaConfig(**sizes)), arguments, train_dataset=rows).train()
print(imported, int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 2**20)
"""


def measure() -> dict[str, Any]:
    """The table `process`: seconds until it has imported, and GiB once it trains."""
    seconds, gib = [], []
    for _ in range(REPEATS):
        started = time.time()  # which both processes read
        done = subprocess.run([sys.executable, "-c", _STARTED], check=True, capture_output=True, text=True)
        imported, memory = done.stdout.split("\n")[-2].split()
        seconds.append(float(imported) - started)
        gib.append(float(memory))
    return {"start_seconds": figure(seconds), "started_gib": median(gib)}
