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
    by_formula, peak = _joined(formula["stages"]), _JOINED.get(simulated["peak_stage"], simulated["peak_stage"])
    for name, size in _joined(simulated["stages"]).items():
        mark = "  peak" if name == peak else ""
        yield f"  {_words(name):18}{_gib(size):>12}{_gib(by_formula.get(name)):>12}{mark}"
    peaks = (simulated["peak_allocated_bytes"], formula["peak_allocated_bytes"])
    yield f"  {'peak':18}{_gib(peaks[0]):>12}{_gib(peaks[1]):>12}  of {_gib(stage['usable_bytes'])} usable"
    terms = sorted(simulated["terms"].items(), key=lambda term: -term[1])
    held = ", ".join(f"{_words(name)} {_gib(size)}" for name, size in terms if size * 1000 > peaks[0])
    yield f"  at the peak: {held}"
    yield from (f"  - {note}" for note in simulated["notes"])


_JOINED = {"forward_end": "forward"}  # the last layer runs where the forward ends: the formula counts it there


def _joined(stages: dict[str, int]) -> dict[str, int]:
    """The places of a step, each with the most of those that are one."""
    found: dict[str, int] = {}
    for name, size in stages.items():
        place = _JOINED.get(name, name)
        found[place] = max(size, found.get(place, 0))
    return found


def _words(name: str) -> str:
    return name.replace("_", " ")


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / GIB:.2f} GiB"


def _percent(difference: float) -> str:
    return f"{100 * difference:+.1f} %"
