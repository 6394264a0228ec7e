"""The published runs that are like a plan, or nearest to it: how much longer than estimated their steps took.

Runs of another generation of cards, or in another precision, tell nothing of a plan; nor do those of adapters of one
that trains all weights. The groups are those of `python -m benchmarks.throughput_accuracy`, which writes their file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct, convert

from recipec.axes.adaptations import ADAPTATIONS
from recipec.axes.strategies import STRATEGIES
from recipec.estimate.links import Link
from recipec.layout import Layout
from recipec.units import counted

FILE = Path(__file__).parent / "nearest.toml"
FEWEST = 8  # runs that a band is told of; our decision


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
    network_gbps: float = 0.0  # the least between nodes, where some ran on several: stated, or what a plan assumes


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


def band_of(card: str, layout: Layout, link: Link) -> tuple[tuple[float, float], str] | None:
    """Measured over predicted time of all runs of this kind, and which they are: on such a card, on as many GPUs or on
    fewer and on more, with no faster network; None where they are few."""
    alike = _of_kind(card, layout.precision, layout.adaptation, layout.strategy)
    if sum(group.runs for group in alike) < FEWEST:
        return None
    gpus, counts = layout.mesh.world_size, [count for group in alike for count in group.gpus]
    networked = gpus <= link.gpus_per_node or 8 * link.network_gb_s >= max(group.network_gbps for group in alike)
    if not (networked and min(counts) <= gpus <= max(counts)):
        return None
    return (min(group.low for group in alike), max(group.high for group in alike)), _runs(alike, "published run")


@lru_cache(maxsize=256)
def _of_kind(*kind: str) -> list[ScoredRuns]:
    return [each for each in _groups() if (each.card, each.precision, each.adaptation, each.strategy) == kind]


def _said(group: ScoredRuns) -> str:
    low, high = (f"{100 * (ratio - 1):+.0f}%" for ratio in (group.low, group.high))
    band = low if low == high else f"{low} to {high}"
    return f"the nearest scored: {_runs([group], 'run')}, {band}"


def _runs(groups: Sequence[ScoredRuns], noun: str) -> str:
    """How many runs they are, of what, and on which GPUs; of one adaptation, strategy and card."""
    trained = " and ".join(dict.fromkeys(group.trained for group in groups))
    sharded = "" if STRATEGIES[groups[0].strategy].one_rank else f" with {groups[0].strategy}"
    counts = sorted({count for group in groups for count in group.gpus})
    gpus = f"{counts[0]} to {counts[-1]}" if len(counts) > 2 else " or ".join(map(str, counts))
    return f"{counted(sum(group.runs for group in groups), noun)} of {trained}{sharded} on {gpus} x {groups[0].card}"


@cache
def _groups() -> tuple[ScoredRuns, ...]:
    return convert(tomllib.loads(FILE.read_text(encoding="utf-8"))["group"], tuple[ScoredRuns, ...])
