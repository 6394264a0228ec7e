"""The published runs nearest to a plan that is like none of them: how much longer than estimated their steps took.

Runs of another generation of cards, or in another precision, tell nothing of a plan; nor do those of adapters of one
that trains all weights. The groups are those of `python -m benchmarks.throughput_accuracy`, which writes their file.
"""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct, convert

from recipec.axes.adaptations import ADAPTATIONS
from recipec.axes.strategies import STRATEGIES
from recipec.units import counted

FILE = Path(__file__).parent / "nearest.toml"


class ScoredRuns(Struct, frozen=True):
    """Runs of dense models that have all of this in common."""

    card: str
    capability: float
    precision: str
    trained: str  # what they do, in words: "pretraining", or the title of their adaptation
    adaptation: str
    strategy: str
    gpus: tuple[int, ...]
    runs: int
    low: float  # measured over predicted time of a step
    high: float


@lru_cache(maxsize=256)
def nearest(capability: float | None, precision: str, adaptation: str, strategy: str) -> str:
    """What the nearest group measured, and how near it is; "" where none is near."""
    trains = ADAPTATIONS[adaptation].trains
    near = [
        group
        for group in _groups()
        if (group.capability, group.precision) == (capability, precision)
        and ADAPTATIONS[group.adaptation].trains == trains
    ]
    if not near:
        return ""
    one = STRATEGIES[strategy].one_rank
    found = min(
        near,
        key=lambda group: (
            group.strategy != strategy,
            STRATEGIES[group.strategy].one_rank != one,
            group.adaptation != adaptation,
            -group.runs,
        ),
    )
    return _said(found)


def _said(group: ScoredRuns) -> str:
    low, high = (f"{100 * (ratio - 1):+.0f}%" for ratio in (group.low, group.high))
    band = low if low == high else f"{low} to {high}"
    sharded = "" if STRATEGIES[group.strategy].one_rank else f" with {group.strategy}"
    gpus = " or ".join(map(str, group.gpus))
    runs = f"{counted(group.runs, 'run')} of {group.trained}{sharded} on {gpus} x {group.card}"
    return f"the nearest scored: {runs}, {band}"


@cache
def _groups() -> tuple[ScoredRuns, ...]:
    return convert(tomllib.loads(FILE.read_text(encoding="utf-8"))["group"], tuple[ScoredRuns, ...])
