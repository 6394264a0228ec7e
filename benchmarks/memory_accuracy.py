"""Score the memory estimate against published measurements: `python -m benchmarks.memory_accuracy [CSV] [--json]`.

Scored: `max_memory_allocated` and `max_memory_reserved` of tier A rows (measured, fully described), one row per run.
Never nvidia-smi, which grows while memory is free. Runs that use something the estimates do not model are counted by
that feature's name. Errors are predicted / measured - 1.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

from benchmarks.published import RESULTS, Case, Row, Unmodelled, card_of, rows
from benchmarks.report import Score, publish
from benchmarks.stacks import case_of
from recipec.estimate.memory import step_memory
from recipec.planner.search.candidates import usable_bytes

GIB = 1 << 30
_UNITS = {"GiB": GIB, "GB": 1e9}


def main(arguments: list[str]) -> int:
    """Print the tables; write them to benchmarks/results unless another CSV is named."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    scores, skipped = score(rows(names[0] if names else "published_memory.csv"))
    target = None if names else RESULTS / "memory_accuracy.md"
    more = [*_too_low(scores), *_reserved_band(scores), *_verdicts(rows("published_oom.csv"))]
    publish("Accuracy of the memory estimate", scores, skipped, arguments, target, more)
    return 0


def score(table: Iterable[Row]) -> tuple[list[Score], Counter[str]]:
    """Predict every tier A run once for each of its scored measurements; count the rest by unmodelled feature."""
    scores, skipped, seen = [], Counter[str](), set()
    for row in table:
        if row["tier"] != "A" or row["mem_kind"] not in ("allocated", "reserved"):
            continue
        if (row["run_key"], row["mem_kind"]) in seen:
            continue
        seen.add((row["run_key"], row["mem_kind"]))
        try:
            scores.append(_score(row, case_of(row)))
        except Unmodelled as reason:
            skipped[str(reason)] += 1
    return scores, skipped


def _too_low(scores: list[Score]) -> list[str]:
    """How often the truth was more than 5 % above the prediction, source by source."""
    found = [score for score in scores if score.kind == "allocated"]
    low = Counter(score.source for score in found if score.error < -0.05)
    where = ", ".join(f"{count} of {source}" for source, count in low.most_common()) or "none"
    return [f"Allocated, predicted more than 5 % too low: {low.total()} of {len(found)} runs ({where}).", ""]


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


def _verdicts(failed: Iterable[Row]) -> list[str]:
    """Fit or no fit: runs that ended out of memory, and all scored runs, against a planner's own limit."""
    ran = [row for row in rows("published_memory.csv") if row["tier"] == "A" and row["mem_kind"] == "allocated"]
    refused, of_failed, missed = verdict(failed)
    wrongly, of_ran, _ = verdict(ran)
    return [
        "Verdicts (predicted allocated peak against what a plan may use of the card):",
        "",
        "| | predicted not to fit | predicted to fit |",
        "|---|---|---|",
        f"| ran out of memory ({of_failed} runs) | {refused} | {of_failed - refused} |",
        f"| ran ({of_ran} runs) | {wrongly} | {of_ran - wrongly} |",
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
