"""A copy of the repository in which mutants live, and the tests that are run on them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.mutants.operators import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("recipec", "templates", "recipes", "docs", "tests", "benchmarks", "generated-examples")
FILES = ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md")
SLOW_SECONDS = 8.0  # a test that takes longer is left out
BUDGET_SECONDS = 15.0  # of tests for one mutant, the fastest of those that reach it
LIMIT_SECONDS = 60.0  # for the tests of one mutant, and 20 times what they take without it: what takes longer hangs
_FAILED = ("FAILED ", "ERROR ")


class Suite(Struct, frozen=True, dict=True):
    """The tests of some folders, as they pass without a mutant."""

    tests: dict[str, dict[str, Any]]  # by id: seconds and reaches
    imported: frozenset[str]  # functions that are called before the first test
    left_out: tuple[str, ...]  # those that fail, are skipped or are slow without a mutant

    def for_mutant(self, mutant: Mutant) -> list[str]:
        """The tests that can notice it, the fastest first: for what a module holds, those that reach it or a user."""
        statement = f"{mutant.path}:{mutant.statement}"
        if mutant.statement and statement not in self.imported:
            return self._by_seconds(id for id, test in self.tests.items() if statement in test["reaches"])
        users = {mutant.path, *_importers(mutant.path)}
        near = [id for id, test in self.tests.items() if users & {id.partition("::")[0], *_files(test)}]
        return self._by_seconds(near or self.tests)

    def _by_seconds(self, ids: Iterable[str]) -> list[str]:
        order = sorted(ids, key=lambda id: (self.tests[id]["seconds"], id))
        spent = accumulate(self.tests[id]["seconds"] for id in order)
        return [id for id, seconds in zip(order, spent, strict=True) if seconds < BUDGET_SECONDS]

    def limit(self, tests: Iterable[str]) -> float:
        """Seconds after which a mutant counts as one that never ends."""
        return LIMIT_SECONDS + 20 * sum(self.tests[id]["seconds"] for id in tests)


def _files(test: dict[str, Any]) -> set[str]:
    """The files of recipec that a test reaches."""
    return {statement.partition(":")[0] for statement in test["reaches"]}


@cache
def _importers(path: str) -> frozenset[str]:
    """The files of recipec and of its tests that import from that file, or from a package that passes it on."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    line = re.compile(rf"^from {re.escape(module)} import|^\s*import {re.escape(module)}$", re.MULTILINE)
    every = (file for folder in ("recipec", "tests") for file in (ROOT / folder).rglob("*.py"))
    found = {file.relative_to(ROOT).as_posix() for file in every if line.search(file.read_text(encoding="utf-8"))}
    packages = {file for file in found if file.endswith("__init__.py") and path.startswith(str(Path(file).parent))}
    return frozenset(found.union(*(_importers(package) for package in packages - {path})))


def _digest(paths: Iterable[Path], root: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


class Sandbox:
    """The copy: one mutant at a time is written into it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        for name in COPIED:
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy2(ROOT / name, self.folder / name)

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def suite(self, folders: Sequence[str]) -> Suite:
        """The tests of the folders without a mutant; what a file reaches is kept until it or the code changes."""
        paths = (path for name in folders for path in (self.folder / "tests" / name).glob("test_*.py"))
        files = {path.relative_to(self.folder).as_posix(): self._kept(path) for path in sorted(paths)}
        self._reach([file for file, kept in files.items() if not kept.exists()])
        found = [json.loads(kept.read_text(encoding="utf-8")) for kept in files.values()]
        tests = {id: test for part in found for id, test in part["tests"].items()}
        good = {id: test for id, test in tests.items() if test["passed"] and test["seconds"] < SLOW_SECONDS}
        imported = frozenset(statement for part in found for statement in part["imported"])
        return Suite(good, imported, tuple(sorted(tests.keys() - good.keys())))

    def _kept(self, test_file: Path) -> Path:
        """Where the answer of a test file is: named by the file and all that it may read."""
        return Path(tempfile.gettempdir()) / f"mutants-{self._code}-{_digest([test_file], self.folder)}.json"

    @cached_property
    def _code(self) -> str:
        """The digest of all files but the tests' own and this command's."""
        every = (path for name in COPIED for path in (self.folder / name).rglob("*") if path.is_file())
        ours = {"__pycache__", "mutants", "results"}
        return _digest((path for path in every if not (ours & {*path.parts} or path.match("test_*.py"))), self.folder)

    def _reach(self, files: Sequence[str]) -> None:
        """Run test files that are not known, and keep what each reaches."""
        if not files:
            return
        answer = self.folder / "reach.json"
        fast = ["-m", "not executes", "-k", "not on_stack"]
        where = {"MUTANTS_ROOT": str(self.folder), "MUTANTS_REACH": str(answer), "PYTHONDONTWRITEBYTECODE": "1"}
        self._pytest(["-p", "benchmarks.mutants.reach", *fast, *files], 3600, **where)
        found = json.loads(answer.read_text(encoding="utf-8"))
        for file in files:
            tests = {id: test for id, test in found["tests"].items() if id.partition("::")[0] == file}
            part = {"imported": found["imported"], "tests": tests}
            self._kept(self.folder / file).write_text(json.dumps(part), encoding="utf-8")

    def killer(self, path: str, text: bytes, tests: Sequence[str], limit: float) -> tuple[str, float]:
        """The test that fails when the file holds the text ("" when none does), and the seconds that took."""
        began, changed = time.perf_counter(), self.folder / path
        whole, stat = changed.read_bytes(), changed.stat()
        changed.write_bytes(text)
        try:
            killed_by = self._first_failure(tests, limit) if tests else ""
        finally:
            changed.write_bytes(whole)
            os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # so that its bytecode stays valid
        return killed_by, time.perf_counter() - began

    def _first_failure(self, tests: Sequence[str], limit: float) -> str:
        listed = self.folder / "tests-of-mutant.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        status, output = self._pytest(["-x", f"@{listed}"], limit)
        if status is None:
            return "time limit"
        failed = [line for line in output.splitlines() if line.startswith(_FAILED)]
        if status == 0:
            return ""
        return failed[0].split(" ", 1)[1].split(" - ")[0] if failed else "import"

    def _pytest(self, arguments: Sequence[str], limit: float, **environment: str) -> tuple[int | None, str]:
        """The exit status, None past the limit, and what was printed. Ends the processes that tests started."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
        more = {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"} | environment
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
