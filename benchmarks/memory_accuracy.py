"""Score the memory estimate against published measurements: `python -m benchmarks.memory_accuracy [CSV] [--json]`.

Scored: `max_memory_allocated` and `max_memory_reserved` of tier A rows (measured, fully described), one row per run.
Never nvidia-smi, which grows while memory is free. Runs that use something the estimates do not model are counted by
that feature's name. Errors are predicted / measured - 1.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

from benchmarks.names import card_of
from benchmarks.published import RESULTS, Case, Row, Unmodelled, rows
from benchmarks.report import Score, publish
from benchmarks.stacks import case_of
from recipec.estimate.memory import step_memory
from recipec.planner.search.candidates import usable_bytes
from recipec.units import counted

GIB = 1 << 30
_UNITS = {"GiB": GIB, "GB": 1e9}


def main(arguments: list[str]) -> int:
    """Print the tables; write them to benchmarks/results unless another CSV is named."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    table = rows(names[0]) if names else [*rows("published_memory.csv"), *rows("published_oom.csv")]
    scores, skipped = score(table)
    target = None if names else RESULTS / "memory_accuracy.md"
    more = [*_too_low(scores), *_reserved_band(scores), *_verdicts(table)]
    publish("Accuracy of the memory estimate", scores, skipped, arguments, target, more)
    return 0


def score(table: Iterable[Row]) -> tuple[list[Score], Counter[str]]:
    """Predict every tier A run once for each of its scored measurements; count the rest by unmodelled feature."""
    scores, skipped, seen = [], Counter[str](), set()
    for row in table:
        run = (row["run_key"] or row["id"], row["mem_kind"])
        if not _measured(row, "allocated", "reserved") or run in seen:
            continue
        seen.add(run)
        try:
            scores.append(_score(row, case_of(row)))
        except Unmodelled as reason:
            skipped[str(reason)] += 1
    return scores, skipped


def _measured(row: Row, *kinds: str) -> bool:
    """Whether a row states a measurement of a kind; without a tier, a whole table is taken for measured."""
    return row["mem_kind"] in kinds and row["tier"] in ("A", "")


def _too_low(scores: list[Score]) -> list[str]:
    """How often the truth was more than 5 % above the prediction, source by source."""
    found = [score for score in scores if score.kind == "allocated"]
    low = Counter(score.source for score in found if score.error < -0.05)
    where = ", ".join(f"{count} of {source}" for source, count in low.most_common()) or "none"
    return [f"Allocated, predicted more than 5 % too low: {low.total()} of {counted(len(found), 'run')} ({where}).", ""]


def _reserved_band(scores: list[Score]) -> list[str]:
    """Between which multiples of the prediction nine of ten runs reserved memory."""
    ratios = sorted(score.measured / score.predicted for score in scores if score.kind == "reserved")
    if not ratios:
        return []
    low, high = (ratios[round(share * (len(ratios) - 1))] for share in (0.05, 0.95))
    return [
        f"Reserved, nine of ten runs: {low:.2f} to {high:.2f} times the prediction. The source's rows vary in length "
        "and come in random order, without expandable_segments, which a bundle sets.",
        "",
    ]


def _verdicts(table: list[Row]) -> list[str]:
    """Fit or no fit: runs that ended out of memory, and all scored runs, against a planner's own limit."""
    refused, of_failed, missed = verdict(row for row in table if row["mem_kind"] == "oom")
    wrongly, of_ran, _ = verdict(row for row in table if _measured(row, "allocated"))
    return [
        "Verdicts (predicted allocated peak against what a plan may use of the card):",
        "",
        "| | predicted not to fit | predicted to fit |",
        "|---|---|---|",
        f"| ran out of memory ({counted(of_failed, 'run')}) | {refused} | {of_failed - refused} |",
        f"| ran ({counted(of_ran, 'run')}) | {wrongly} | {of_ran - wrongly} |",
        "",
        *(f"- predicted to fit, ran out of memory: {line}" for line in missed),
    ]


def verdict(table: Iterable[Row]) -> tuple[int, int, list[str]]:
    """(predicted not to fit, modelled, descriptions of those predicted to fit) of runs on known cards."""
    refused, modelled, fitting = 0, 0, []
    for row in table:
        try:
            case, card = case_of(row), card_of(row)
        except Unmodelled:
            continue
        modelled += 1
        peak = step_memory(case.architecture, case.layout, case.work).peak_allocated_bytes
        limit = usable_bytes(card, case.layout.mesh.world_size)
        refused += peak > limit
        if peak <= limit:
            fitting.append(f"{row['id']} {peak / GIB:.1f} of {limit / GIB:.1f} GiB")
    return refused, modelled, fitting


def _score(row: Row, case: Case) -> Score:
    estimate = step_memory(case.architecture, case.layout, case.work)
    allocated = row["mem_kind"] == "allocated"
    predicted = estimate.peak_allocated_bytes if allocated else estimate.peak_reserved_bytes
    measured = float(row["peak_mem_gb_per_gpu"]) * _UNITS[row["unit"]]
    return Score(
        id=row["id"],
        source=row["source_repo_or_doc"],
        kind=row["mem_kind"],
        method=row["method"],
        strategy=case.layout.strategy,
        measured=measured / GIB,
        predicted=predicted / GIB,
        note=estimate.peak_moment,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
