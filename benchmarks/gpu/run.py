"""Compiling a case and running its bundle; the next run prepares while this one has the GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.gpu.cases import ROWS, SMALL_MOE, STEPS, Case
from benchmarks.gpu.models import place_model, words, write_config
from recipec.bundle.build import write_bundle
from recipec.compiler import Compilation, compile_recipe

_MARKERS = {"sft": 17, "dpo": 17, "pretrain": 1}  # tokens of a row that are not its words: turns and stop tokens


class NotPlanned(Exception):
    """The recipe of a case does not compile: its diagnostics."""


class Job(Struct, frozen=True):
    """A case, as planned or with another micro batch."""

    case: Case
    rows: int | None = None
    steps: int = STEPS


class Rig:
    """A folder with a model hub and one folder for each run."""

    def __init__(self, folder: Path, gpu: str, log: Path) -> None:
        self.folder, self.gpu, self.log = folder, gpu, log
        self.count = 0
        (folder / "hub").mkdir(parents=True, exist_ok=True)

    def measure(self, jobs: Iterable[Job], until: float) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run the jobs one after the other; none trains after `until` (time.monotonic). Each imports one run ahead."""
        waiting = None
        for job in jobs:
            if time.monotonic() > until:
                break
            started = self.start(job)
            if waiting:
                yield waiting[0], self.finish(*waiting[1], until)
            waiting = (job, started)
        if waiting and time.monotonic() <= until:
            yield waiting[0], self.finish(*waiting[1], until)
        elif waiting:
            self.abandon(*waiting[1])

    def start(self, job: Job) -> tuple[subprocess.Popen[str], Path]:
        """Compile, write the rows, and start the process; it waits before it touches the GPU."""
        self.count += 1
        folder = self.folder / f"run-{self.count}"
        folder.mkdir()
        place_model(job.case.model, self.folder / "hub")
        build(job.case, self.gpu, folder, self.folder / "hub")
        command = [sys.executable, "-m", "benchmarks.gpu.worker", str(folder), str(job.steps)]
        more = [str(job.rows)] if job.rows else []
        log = (self.log / f"{self.count}.log").open("w")
        environment = os.environ | {
            "DATA_ROOT": str(folder),
            "HF_HUB_CACHE": str(self.folder / "hub"),
            "HF_HOME": str(self.folder / "home"),
            "HF_HUB_OFFLINE": "1",
            "OTHER_RANKS": "1",  # the bundle then accepts another batch than the planned one
            "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
            "PYTORCH_ALLOC_CONF": "expandable_segments:True",  # as launch/local.sh sets it
            "TOKENIZERS_PARALLELISM": "false",
        }
        process = subprocess.Popen(
            command + more, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, env=environment
        )
        return process, folder

    def finish(self, process: subprocess.Popen[str], folder: Path, until: float) -> dict[str, Any]:
        """Let a waiting process train; returns what it measured."""
        try:
            process.communicate("go\n", timeout=max(until - time.monotonic(), 0) + 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()  # its memory on the device is free when it has ended
        file = folder / "measured.json"
        found = json.loads(file.read_text()) if file.is_file() else {"status": f"ended with {process.returncode}"}
        shutil.rmtree(folder)
        return found

    def abandon(self, process: subprocess.Popen[str], folder: Path) -> None:
        """End a process that waits, without training."""
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def build(case: Case, gpu: str, folder: Path, hub: Path) -> None:
    """Compile `case` for `gpu` into folder/bundle, with its rows beside it."""
    if case.model == SMALL_MOE:
        (folder / SMALL_MOE).symlink_to(hub / SMALL_MOE)
    with (folder / ROWS).open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(case))
    found = plan(case, gpu, folder)
    assert found.lock is not None
    write_bundle(
        folder / "bundle",
        found.files,
        found.plan_json,
        found.lock,
        conflict="markers",
        force=False,
        dry_run=False,
        check=False,
    )


def plan(case: Case, gpu: str, folder: Path) -> Compilation:
    """Compile the recipe of `case` in `folder`; raises NotPlanned."""
    if case.model == SMALL_MOE and not (folder / SMALL_MOE).exists():
        write_config(SMALL_MOE, folder / SMALL_MOE)
    if not (folder / ROWS).exists():
        (folder / ROWS).write_text(json.dumps(next(rows(case))) + "\n")
    recipe = folder / "recipe.toml"
    recipe.write_text(case.recipe(gpu))
    found = compile_recipe(recipe)
    if found.plan is None:
        raise NotPlanned(f"{case.id}: {[(problem.code, problem.title) for problem in found.diagnostics]}")
    return found


def rows(case: Case) -> Iterator[dict[str, str]]:
    """Rows of as many words as the case wants tokens, no two alike."""
    known = words()
    for index, length in enumerate(case.lengths()):
        text = [
            known[(index * 7919 + place * (index + 1)) % len(known)]
            for place in range(length - _MARKERS[case.objective])
        ]
        question, answer = text[: length // 4], text[length // 4 :]
        if case.objective == "sft":
            yield {"prompt": _text(question), "completion": _text(answer)}
        elif case.objective == "dpo":
            yield {"prompt": _text(question), "chosen": _text(answer), "rejected": _text(answer[::-1])}
        else:
            yield {"text": _text(text)}


def _text(known: list[str]) -> str:
    return "".join(f" {word}" for word in known)
