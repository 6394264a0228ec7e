"""Hold the memory formula against the exact simulation on a grid of runs: `python -m benchmarks.memory_grid [N]`.

Simulates the next N cases (all, without N) that benchmarks/results/memory_grid.csv does not have, one row at a time, so
that it can be stopped and continued; then scores the formula on all rows and writes memory_grid.md. With 0 it only
scores. Needs no GPU; a case takes ten seconds.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from statistics import median

from benchmarks.grid_cases import Case, cases
from benchmarks.published import RESULTS

GIB = 1 << 30
TABLE, SUMMARY = RESULTS / "memory_grid.csv", RESULTS / "memory_grid.md"
MOMENTS = ("policy", "forward", "forward_end", "reference", "teacher", "loss", "layer_backward", "end_of_backward")
MOMENTS += ("optimizer_step", "evaluation")
COLUMNS = ("case", "peak_bytes", "peak_stage", *MOMENTS, "seconds", "found_by")


def main(arguments: list[str]) -> int:
    """Continue the table and score the formula."""
    known = read()
    missing = [case for case in cases() if case.id not in known]
    for case in missing[: int(arguments[0]) if arguments else None]:
        known[case.id] = _simulated(case)
        _append(known[case.id])
        print(_line(case, known[case.id]), flush=True)
    text = "\n".join(report(known)) + "\n"
    print(text, end="")
    SUMMARY.write_text(text, encoding="utf-8")
    return 0


def read() -> dict[str, Mapping[str, str]]:
    """The rows that exist, by case."""
    if not TABLE.exists():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def _simulated(case: Case) -> Mapping[str, str]:
    from recipec.simulate.simulate import simulate

    found = simulate(case.architecture, case.layout, case.work)
    row = {"case": case.id, "peak_bytes": found.peak_allocated_bytes, "peak_stage": found.peak_moment}
    row |= {name: found.moments.get(name, "") for name in MOMENTS}
    row |= {"seconds": f"{found.seconds:.1f}", "found_by": found.notes[0]}
    return {name: str(value) for name, value in row.items()}


def _append(row: Mapping[str, str]) -> None:
    new = not TABLE.exists()
    with TABLE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def error(case: Case, row: Mapping[str, str]) -> float:
    """Formula over simulation, less one; the simulation writes no answers, so that generation is left out."""
    found = (size for name, size in case.formula.moments.items() if name != "generation")
    return max(found) / int(row["peak_bytes"]) - 1


def _line(case: Case, row: Mapping[str, str]) -> str:
    simulated = f"{int(row['peak_bytes']) / GIB:9.2f} GiB {row['peak_stage']:15}"
    return f"{case.id:95} {simulated} formula {error(case, row):+7.1%} {case.formula.peak_moment:15} {row['seconds']} s"


def report(known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The percentile table, and every case that is off by more than three percent."""
    done = [case for case in cases() if case.id in known]
    errors = {case: error(case, known[case.id]) for case in done}
    yield "# The memory formula against the exact simulation"
    yield ""
    yield f"{len(done)} of {len(cases())} cases. Errors are formula / simulation - 1; bias is their median."
    yield ""
    yield "| group | n | within 3 % | median | p90 | p95 | worst | bias |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, group in _groups(errors).items():
        yield _row(name, group)
    yield ""
    yield "Off by more than 3 %:"
    yield ""
    for case in sorted((case for case in done if abs(errors[case]) > 0.03), key=lambda case: errors[case]):
        row = known[case.id]
        peaks = f"{row['peak_stage']}, formula {case.formula.peak_moment}"
        yield f"- {errors[case]:+.1%} {case.id} ({int(row['peak_bytes']) / GIB:.2f} GiB at {peaks})"


def _groups(errors: Mapping[Case, float]) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {"all": []}
    for case, value in errors.items():
        parts = (f"{case.strategy}-{case.ranks}", case.trainer, case.optimizer, f"{case.method}, {case.strategy}")
        parts += ("every n-th layer recomputed",) if case.recompute_every > 1 else ()
        parts += (f"{'packed' if case.packed else 'padded'} rows, {case.attention}",) if case.attention else ()
        parts += ("activations on the host",) if case.activation_offload else ()
        parts += ("adapters on experts",) if case.expert_rank else ()
        for name in ("all", case.model, case.method, *parts):
            groups.setdefault(name, []).append(value)
    return groups


def _row(name: str, group: list[float]) -> str:
    sizes = sorted(abs(value) for value in group)
    within = sum(size <= 0.03 for size in sizes)
    cuts = [sizes[round(share * (len(sizes) - 1))] for share in (0.5, 0.9, 0.95, 1.0)]
    return f"| {name} | {len(group)} | {within} | " + " | ".join(f"{v:.1%}" for v in (*cuts, median(group))) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
