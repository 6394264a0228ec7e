"""The exact plan for people, from its JSON document and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

GIB = 2**30

Document = dict[str, Any]


def exact_text(document: Document) -> str:
    """A table for each stage: the places of a step as simulated and by the formula, in GiB."""
    lines = [line for stage in document["stages"] for line in (*_stage(stage), "")]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return "\n".join([*lines, f"simulated with {versions}"]) + "\n"


def _stage(stage: Document) -> Iterator[str]:
    formula, simulated = stage["formula"], stage["simulated"]
    if simulated is None:
        yield f"{stage['name']}: not simulated. {stage['obstacle']}"
        yield f"  formula  {_gib(formula['peak_allocated_bytes'])} at the peak ({_words(formula['peak_stage'])})"
        return
    yield f"{stage['name']}: simulated in {simulated['seconds']} s, the formula is {_percent(stage['difference'])} off"
    yield f"  {'':18}{'simulated':>12}{'formula':>12}"
    for name, size in simulated["stages"].items():
        mark = "  peak" if name == simulated["peak_stage"] else ""
        yield f"  {_words(name):18}{_gib(size):>12}{_gib(formula['stages'].get(name)):>12}{mark}"
    peaks = (simulated["peak_allocated_bytes"], formula["peak_allocated_bytes"])
    yield f"  {'peak':18}{_gib(peaks[0]):>12}{_gib(peaks[1]):>12}  of {_gib(stage['usable_bytes'])} usable"
    terms = sorted(simulated["terms"].items(), key=lambda term: -term[1])
    held = ", ".join(f"{_words(name)} {_gib(size)}" for name, size in terms if size * 1000 > peaks[0])
    yield f"  at the peak: {held}"
    yield from (f"  - {note}" for note in simulated["notes"])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / GIB:.2f} GiB"


def _percent(difference: float) -> str:
    return f"{100 * difference:+.1f} %"
