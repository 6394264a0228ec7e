"""The score of each package, and every survivor with what was found about it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.mutants.operators import Mutant
from benchmarks.published import RESULTS

LOG, SUMMARY, VERDICTS = (RESULTS / f"mutants.{suffix}" for suffix in ("jsonl", "md", "toml"))

Row = Mapping[str, Any]


def read() -> dict[str, Row]:
    """The latest answer for each mutant that was tried."""
    if not LOG.exists():
        return {}
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row for row in rows}


def _verdicts() -> Mapping[str, str]:
    """Why a survivor is without consequence, by id."""
    return tomllib.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}


def report(existing: Mapping[str, Mapping[str, Mutant]]) -> Iterator[str]:
    """The table of scores and the table of survivors; of mutants whose code still stands."""
    known, verdicts = read(), _verdicts()
    yield "# Mutants: which mistakes no test notices"
    yield ""
    yield "Written by `python -m benchmarks.mutants`. A mutant is the package with one small mistake; the tests of the"
    yield "neighboring folders that reach it run on it, fastest first and 15 s of them at most, until one fails. The"
    yield "compared files of `generated-examples` are not among them."
    yield ""
    yield "| package | mutants | tried | killed | survived | of these without consequence | score |"
    yield "|---|---|---|---|---|---|---|"
    survivors: list[Row] = []
    for package, found in existing.items():
        tried = [known[id] | {"line": mutant.line} for id, mutant in found.items() if id in known]
        alive = [row for row in tried if not row["killed_by"]]
        survivors += alive
        yield _scores(package, len(found), len(tried), alive, verdicts)
    yield ""
    yield "Score: of the tried ones that have a consequence, the share that a test kills."
    yield ""
    yield "## Survivors"
    yield ""
    yield "| place | function | instead of | stands | tests that reach it | verdict |"
    yield "|---|---|---|---|---|---|"
    for row in survivors:
        yield _survivor(row, verdicts.get(row["id"], "open"))


def _scores(package: str, number: int, tried: int, alive: list[Row], verdicts: Mapping[str, str]) -> str:
    harmless = sum(row["id"] in verdicts for row in alive)
    killed = tried - len(alive)
    score = f"{killed / (tried - harmless):.0%}" if tried > harmless else ""
    return f"| `{package}` | {number:,} | {tried} | {killed} | {len(alive)} | {harmless} | {score} |"


def _survivor(row: Row, verdict: str) -> str:
    cells = (f"{row['path']}:{row['line']}", row["scope"], row["before"], row["after"])
    code = " | ".join(f"`{cell}`".replace("|", "\\|") if cell else "" for cell in map(_short, cells))
    return f"| {code} | {row['tests']} | {verdict} |"


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:87]}..."
