"""The table of measured runs beside today's predictions: `python -m benchmarks.gpu.report RUNS.jsonl`.

Predictions are made anew from the cases, so the table follows the estimates without another run.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu.cases import CASES, EDGES, Case
from benchmarks.gpu.edges import planned_rows
from benchmarks.gpu.run import plan
from benchmarks.published import RESULTS

GIB = 2**30
_WARM = 2  # the first steps compile kernels and fill caches

Run = dict[str, Any]


def main(path: Path) -> None:
    """Print the tables and write them to benchmarks/results/gpu.md."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    text = "\n".join([*_report(runs), ""])
    print(text, end="")
    (RESULTS / "gpu.md").write_text(text, encoding="utf-8")


def _report(runs: list[Run]) -> Iterator[str]:
    yield "# Bundles on a GPU"
    for gpu in sorted({run["gpu"] for run in runs}):
        of_gpu = [run for run in runs if run["gpu"] == gpu]
        yield from ("", f"## {gpu}", "", _machine(of_gpu[0]), "")
        yield from cases_table([run for run in of_gpu if run["kind"] == "case"], gpu)
        yield ""
        yield from edges_table([run for run in of_gpu if run["kind"] == "edge"], gpu)


def _machine(run: Run) -> str:
    packages = ", ".join(f"{name} {run[name]}" for name in ("torch", "transformers", "trl", "peft", "bitsandbytes"))
    return (
        f"{run['device']}, {run['capacity_bytes'] / GIB:.2f} GiB, {run['date']}: {packages}. An empty context takes "
        f"{run['context_bytes'] / GIB:.2f} GiB; products of 8,192 x 8,192 run at {run['matmul_tflops']:.0f} TFLOP/s, "
        f"copies on the device at {run['copy_gb_s']:.0f} GB/s, to the device at {run['to_device_gb_s']:.0f} GB/s."
    )


def cases_table(runs: Iterable[Run], gpu: str) -> Iterator[str]:
    """Peak memory and speed, a row for each case that ran, and the median errors."""
    yield "| run | allocated GiB | predicted | | reserved / allocated | tokens/s | predicted | |"
    yield "|---|---|---|---|---|---|---|---|"
    by_id, errors = {case.id: case for case in CASES}, defaultdict(list)
    for run in runs:
        if run["status"] != "ran" or run["case"] not in by_id:
            yield f"| {run['case']} | {run['status']} | | | | | | |"
            continue
        stage = _stage(by_id[run["case"]], gpu)
        memory = run["peak_bytes"], stage["memory"]["peak_allocated_bytes"]
        speed = tokens_per_second(run), stage["time"]["tokens_per_second_per_gpu"]
        errors["allocated"].append(memory[1] / memory[0] - 1)
        errors["tokens/s"].append(speed[1] / speed[0] - 1)
        yield (
            f"| {run['case']} | {memory[0] / GIB:.2f} | {memory[1] / GIB:.2f} | {errors['allocated'][-1]:+.1%} | "
            f"{run['reserved_bytes'] / memory[0]:.3f} | {speed[0]:,.0f} | {speed[1]:,.0f} | "
            f"{errors['tokens/s'][-1]:+.1%} |"
        )
    for name, found in errors.items():
        yield ""
        yield f"{name}: median error {median(map(abs, found)):.1%} over {len(found)} runs."


def edges_table(runs: list[Run], gpu: str) -> Iterator[str]:
    """The largest micro batch that ran beside the planner's."""
    yield "| run | the planner's largest micro batch | the largest that ran | the smallest that did not |"
    yield "|---|---|---|---|"
    for case in EDGES:
        tried = [run for run in runs if run["case"] == case.id]
        ran = [run["rows"] for run in tried if run["status"] == "ran"]
        failed = [run["rows"] for run in tried if run["status"] == "out of memory"]
        if tried:
            row = (case.id, planned_rows(case, gpu), max(ran, default="-"), min(failed, default="-"))
            yield "| " + " | ".join(map(str, row)) + " |"


def tokens_per_second(run: Run) -> float:
    """Of the steps after the first two, padding included."""
    return sum(run["step_tokens"][_WARM:]) / sum(run["step_seconds"][_WARM:])


def _stage(case: Case, gpu: str) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        return json.loads(plan(case, gpu, Path(folder)).plan_json)["stages"][0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
