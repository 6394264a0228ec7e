"""Run emitted bundles with random weights at real sizes on this machine's GPU, and write what they measured.

    python -m benchmarks.gpu h100                all cases that recipec plans on an h100, and the edges
    python -m benchmarks.gpu h100 --only qlora   those whose id contains `qlora`

A run writes a line of JSON as soon as it ends, to OUT/runs.jsonl; `python -m benchmarks.gpu.report` makes the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu.cases import CASES, EDGES, Case
from benchmarks.gpu.edges import accepted, find_edge
from benchmarks.gpu.run import Job, Rig

_PACKAGES = ("transformers", "trl", "peft", "accelerate", "bitsandbytes")


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + arguments.seconds
    machine = _machine(arguments.gpu)
    print(json.dumps(machine), flush=True)
    with TemporaryDirectory(dir=arguments.scratch) as scratch, (arguments.out / "runs.jsonl").open("a") as file:
        rig = Rig(Path(scratch), arguments.gpu, arguments.out)
        for kind, case, rows, found in _runs(rig, arguments, until):
            line = {"kind": kind, "case": case.id, "rows": rows, **machine, **found}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(_short(line), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpu", help="the name of this machine's GPU in the catalog")
    parser.add_argument("--only", action="append", default=[], help="part of a case's id; may be given again")
    parser.add_argument("--edges", choices=("no", "only", "too"), default="too", help="search the largest micro batch")
    parser.add_argument("--out", type=Path, default=Path("gpu-out"), help="a folder for runs.jsonl and the logs")
    parser.add_argument("--scratch", help="a folder with room for the largest model; the default is /tmp")
    parser.add_argument("--seconds", type=float, default=3600, help="start no run after this time")
    return parser.parse_args()


def _runs(rig: Rig, arguments: argparse.Namespace, until: float) -> Iterable[tuple[str, Case, int, dict[str, Any]]]:
    if arguments.edges != "only":
        jobs = (Job(case) for case in _wanted(CASES, arguments.only) if accepted(case, rig.gpu))
        for job, found in rig.measure(jobs, until):
            yield "case", job.case, job.case.rows, found
    if arguments.edges != "no":
        for case in _wanted(EDGES, arguments.only):
            for rows, found in find_edge(rig, case, until):
                yield "edge", case, rows, found


def _wanted(cases: list[Case], only: list[str]) -> list[Case]:
    return [case for case in cases if not only or any(part in case.id for part in only)]


def _machine(gpu: str) -> dict[str, Any]:
    from benchmarks.gpu.probe import probe

    return {"gpu": gpu, "date": date.today().isoformat(), **probe()} | {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _short(line: dict[str, Any]) -> str:
    peak, seconds = line.get("peak_bytes", 0) / 2**30, line.get("step_seconds", [])[2:]
    return f"{line['kind']} {line['case']} rows {line['rows']}: {line['status']}, {peak:.2f} GiB, {seconds[:2]}"


if __name__ == "__main__":
    main()
