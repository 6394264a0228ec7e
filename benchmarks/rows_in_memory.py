"""Host memory that grows with the rows, measured and predicted: prepare_data.py, and the order of a training's rows.

    python -m benchmarks.rows_in_memory [ROWS]     1,000,000 rows unless it is told

The emitted prepare_data.py goes through rows that are converted already, of which one in a hundred is a duplicate: what
converting takes does not grow with the rows. Each part is a process of its own, whose anonymous memory is looked at
every 5 ms. A run of 1,000,000 rows writes benchmarks/results/rows_in_memory.md. Where the ratio leaves 0.6 to 1.2, the
figures of recipec/estimate/many_rows.py have to be set anew.
"""

import hashlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recipec.axes.method import RANDOM, SIMILAR
from recipec.estimate.many_rows import PREPARED_ROW_BYTES, RowOrder

ROWS = 1_000_000
BAND = 0.6, 1.2
RESULTS = Path(__file__).parent / "results" / "rows_in_memory.md"
RECIPE = """
[recipe]
name = "many-rows"
[goal]
task = "{task}"
[model]
name = "Qwen/Qwen2.5-0.5B-Instruct"
[data]
train = {{ hub = "a/b" }}
format = "{format}"
examples = {rows}
tokens_per_example = 1000
[hardware]
gpu = "rtx-4090"
"""


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    parts = {
        "prepare_data.py": (prepare, PREPARED_ROW_BYTES),
        "RandomSampler of torch": (order_at_random, RowOrder(rows, RANDOM).rank_bytes / rows),
        "similar_lengths.py": (order_by_length, RowOrder(rows, SIMILAR).rank_bytes / rows),
    }
    lines = ["| part | rows | bytes of a row | predicted | measured over predicted |", "|---|---|---|---|---|"]
    for name, (part, predicted) in parts.items():
        found = in_own_process(part, rows)
        lines.append(f"| {name} | {rows:,} | {found:.0f} | {predicted:.0f} | {found / predicted:.2f} |")
        if not BAND[0] <= found / predicted <= BAND[1]:
            lines[-1] += " outside the band"
    report = "\n".join(lines) + f"\n\nAccepted: {BAND[0]} to {BAND[1]}.\n"
    print(report)
    if rows == ROWS:
        RESULTS.write_text(
            f"# Host memory that grows with the rows\n\n`python -m benchmarks.rows_in_memory`\n\n{report}"
        )


def in_own_process(part: Callable[[int], float], rows: int) -> float:
    told = f"from benchmarks.rows_in_memory import {part.__name__} as part; print(part({rows}))"
    done = subprocess.run([sys.executable, "-c", told], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


class Watch:
    """The most anonymous memory of this process in a `with` block, beyond what it began with."""

    def __enter__(self) -> "Watch":
        self.before, self.most, self.ends = anonymous_bytes(), 0, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self) -> None:
        while not self.ends.wait(0.005):
            self.most = max(self.most, anonymous_bytes() - self.before)

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def emitted(folder: Path, name: str, task: str, rows_as: str) -> dict[str, Any]:
    """What a file of a bundle defines."""
    from recipec.compiler import compile_recipe

    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(task=task, rows=ROWS, format=rows_as))
    compiled = compile_recipe(recipe)
    text = next(file.text for file in compiled.files if file.path == name)
    names: dict[str, Any] = {"__name__": "emitted", "__file__": str(folder / name)}
    module = SimpleNamespace(__dict__=names)
    sys.modules["emitted"] = module  # type: ignore[assignment]  # dataclasses look there
    exec(compile(text, name, "exec"), names)
    return names


def prepare(rows: int) -> float:
    """Duplicates, both splits, leaks and lengths, as `prepare` of the script goes through them."""
    import pyarrow as pa
    from datasets import Dataset

    with tempfile.TemporaryDirectory() as name:
        script = emitted(Path(name), "prepare_data.py", "continue-pretrain", "text")
        digests = [hashlib.sha256(str(n if n % 100 else 0).encode()).digest() for n in range(rows)]
        columns = {"teaches": [True] * rows, "itself": digests, "question": digests, "length": [1000] * rows}
        Dataset(pa.table(columns)).save_to_disk(f"{name}/rows")
        del digests, columns
        pa.default_memory_pool().release_unused()
        stored = Dataset.load_from_disk(f"{name}/rows")
        script |= {"read": lambda source: stored, "converted": lambda raw, stage, tokenizer: raw}
        report: dict[str, Any] = {}
        with Watch() as watch:
            left, test = script["split"](script["convert"]([{}], None, None, report), 1e-4)
            left, evaluation = script["split"](left, 1e-4)
            held_out = {asked for part in (test, evaluation) for asked in script["values"](part, "question")}
            left = script["drop_leaks"](left, held_out, report["train"])
            script["fit"](left, SimpleNamespace(max_length=2048, name="text"), report["train"])
    return watch.most / rows


def order_at_random(rows: int) -> float:
    import torch
    from torch.utils.data import RandomSampler

    torch.randperm(10).tolist()
    with Watch() as watch:
        next(iter(RandomSampler(range(rows))))
        time.sleep(0.02)
    return watch.most / rows


def order_by_length(rows: int) -> float:
    """Of 8 ranks with a micro batch of 4."""
    with tempfile.TemporaryDirectory() as name:
        sampler = emitted(Path(name), "similar_lengths.py", "instruct", "chat")["SimilarLengths"]
    config = SimpleNamespace(train_batch_size=4, world_size=8, seed=42)
    trainer = SimpleNamespace(args=config, state=SimpleNamespace(epoch=0))
    with Watch() as watch:
        order = sampler(trainer, {"input_ids": (range(300 + 37 * n % 3700) for n in range(rows))})
        next(iter(order))
        time.sleep(0.02)
    return watch.most / rows


if __name__ == "__main__":
    main()
