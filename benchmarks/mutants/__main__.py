"""`python -m benchmarks.mutants [--sample N] [--seed S] [--again] [--known] PACKAGE …`: which mistakes no test notices.

Draws N mutants (all, without --sample), the same number from each package, runs the tests of the neighboring folders on
one after the other, fastest first until one fails, and appends each answer to benchmarks/results/mutants.jsonl, so that
a command that is stopped goes on where it was. Then writes benchmarks/results/mutants.md. --again tries the survivors
again, after tests were added; --known tries the mutants of tests/known-mutants.toml, each with its own test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.mutants.known import run_known
from benchmarks.mutants.operators import Mutant, mutants
from benchmarks.mutants.report import LOG, SUMMARY, read, report
from benchmarks.mutants.sandbox import ROOT, Sandbox, Suite

# Which folders of tests/ hold the tests of a package.
NEIGHBORS = {
    "recipec/axes": ("recipe", "rules", "dataset", "facts", "estimate", "planner", "backends", "compiler"),
    "recipec/rules": ("rules", "facts", "planner"),
    "recipec/estimate": ("estimate", "figures"),
    "recipec/planner": ("planner", "errors"),
    "recipec/backends/engines": ("backends",),
}


def main(arguments: list[str]) -> int:
    """Draw, try, report."""
    asked = _parser().parse_args(arguments)
    sandbox = Sandbox()
    try:
        if asked.known:
            return run_known(sandbox)
        share = None if asked.sample is None else -(-asked.sample // max(1, len(asked.packages)))
        for package in asked.packages:
            _try_package(sandbox, package, share, asked.seed, asked.again)
    finally:
        sandbox.close()
    text = "\n".join(report({package: _existing(ROOT, package) for package in NEIGHBORS})) + "\n"
    print(text, end="")
    SUMMARY.write_text(text, encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", choices=[*NEIGHBORS, []], metavar="PACKAGE", help=", ".join(NEIGHBORS))
    parser.add_argument("--sample", type=int, metavar="N", help="how many mutants, of all packages together")
    parser.add_argument("--seed", type=int, default=0, help="which ones are drawn")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--known", action="store_true", help="try the mutants of tests/known-mutants.toml")
    return parser


def _existing(root: Path, package: str) -> dict[str, Mutant]:
    """All mutants of a package, by id."""
    paths = sorted(path.relative_to(root).as_posix() for path in (root / package).rglob("*.py"))
    return {mutant.id: mutant for path in paths for mutant in mutants(root, path)}


def _drawn(found: Mapping[str, Mutant], count: int | None, seed: int) -> list[Mutant]:
    """The first of an order that the seed makes, in which a mutant keeps its place when others come and go."""
    order = sorted(found, key=lambda id: hashlib.sha256(f"{seed}:{id}".encode()).digest())
    return [found[id] for id in order[:count]]


def _try_package(sandbox: Sandbox, package: str, count: int | None, seed: int, again: bool) -> None:
    known = read()
    drawn = _drawn(_existing(sandbox.folder, package), count, seed)
    todo = [mutant for mutant in drawn if mutant.id not in known or (again and not known[mutant.id]["killed_by"])]
    if not todo:
        return
    suite = sandbox.suite(NEIGHBORS[package])
    print(f"{package}: {len(todo)} mutants, {len(suite.tests)} tests; left out: {', '.join(suite.left_out) or 'none'}")
    for row in _tried(sandbox, package, todo, suite):
        with LOG.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['path']}:{row['line']} {row['before']} -> {row['after']}: {row['killed_by'] or 'SURVIVED'}")
        sys.stdout.flush()


def _tried(sandbox: Sandbox, package: str, todo: list[Mutant], suite: Suite) -> Iterator[dict[str, Any]]:
    for mutant in todo:
        tests = suite.for_mutant(mutant)
        text = mutant.applied((sandbox.folder / mutant.path).read_bytes())
        killed_by, seconds = sandbox.killer(mutant.path, text, tests, suite.limit(tests))
        place = {"id": mutant.id, "package": package, "path": mutant.path, "line": mutant.line}
        change = {"scope": mutant.scope, "before": mutant.before, "after": mutant.after}
        yield place | change | {"killed_by": killed_by, "tests": len(tests), "seconds": round(seconds, 1)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
