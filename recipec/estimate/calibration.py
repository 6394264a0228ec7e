"""What is left of a micro step once products, attention and copies are measured: learned from the probed model's.

Two figures: how long Python takes to issue an operation, and by what factor the kernels of the law are too fast. On a
GPU the operations are issued beside the kernels, on a CPU between them. They are learned from steps of the plan's
precision and of several sizes; what these do not tell stays as assumed, and `estimate/basis.py` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import mean

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.catalog.measured import MicroStep
from recipec.estimate.flops import StepFlops, step_flops
from recipec.estimate.kernels import LAUNCH_SECONDS, Card, kernel_seconds, launches, side_by_side
from recipec.estimate.probed import probed
from recipec.estimate.step import Step, step_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout

LOADED = 1.5  # times the smallest step: above that, kernels and not launches take the time of a GPU's step; our choice


FACTORS = (0.25, 20.0)  # of kernels that a law with measured rates can be off by: outside is noise; our decision


class Calibration(Struct, frozen=True):
    """The two figures, and which of them the micro steps tell; the others are as assumed."""

    launch_seconds: float = LAUNCH_SECONDS
    kernel_factor: float = 1.0
    launches_learned: bool = False
    kernels_learned: bool = False


class _Point(Struct, frozen=True):
    """A measured micro step, and what the law says of it."""

    seconds: float
    launches: float
    kernels: float


def calibrated_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, flops: StepFlops, card: Card
) -> float:
    """One forward and backward of the micro batch on one rank."""
    found = calibration_of(card, layout.precision)
    kernels = found.kernel_factor * kernel_seconds(architecture, layout, work, step, flops, card)
    issued = found.launch_seconds * launches(architecture, layout, work, step)
    return side_by_side(kernels, issued, card, step.fixed.path)


def calibration_of(card: Card, precision: str) -> Calibration:
    """What the measured micro steps of a card say of steps in a precision."""
    return _calibration(card, precision) if card.measured else Calibration()


def _on_cpu(card: Card) -> bool:
    return card.measured is not None and card.measured.device == "cpu"


@lru_cache(maxsize=64)
def _calibration(card: Card, precision: str) -> Calibration:
    assert card.measured is not None
    rows = [row for row in card.measured.micro_steps if row.dtype == precision]
    points = sorted((_point(row, card) for row in rows), key=lambda point: point.kernels)
    if len({point.kernels for point in points}) < 2:  # one size does not tell launches from kernels
        return Calibration()
    found = _one_after_the_other(points) if _on_cpu(card) else _side_by_side(points)
    return found if FACTORS[0] <= found.kernel_factor <= FACTORS[1] else Calibration()


def _one_after_the_other(points: Sequence[_Point]) -> Calibration:
    """The two figures with the least squares of relative errors; no time is negative."""
    shares = [(point.launches / point.seconds, point.kernels / point.seconds) for point in points]
    ll, lk, kk = (sum(one[i] * one[j] for one in shares) for i, j in ((0, 0), (0, 1), (1, 1)))
    l1, k1 = (sum(one[i] for one in shares) for i in (0, 1))
    scale = ll * kk - lk * lk
    issued = max(0.0, (l1 * kk - k1 * lk) / scale) if scale else 0.0
    return Calibration(issued, (k1 - issued * lk) / kk, launches_learned=True, kernels_learned=True)


def _side_by_side(points: Sequence[_Point]) -> Calibration:
    """The smallest step is all launches, the larger ones are all kernels where they take longer."""
    smallest = points[0]
    factors = [point.seconds / point.kernels for point in points if point.seconds > LOADED * smallest.seconds]
    factor, learned = (mean(factors), True) if factors else (1.0, False)
    return Calibration(smallest.seconds / smallest.launches, factor, launches_learned=True, kernels_learned=learned)


def _point(row: MicroStep, card: Card) -> _Point:
    """The law's parts of a micro step."""
    assert card.measured is not None
    architecture, layout, work = probed(card.measured.device, row.dtype, row.sequences, row.tokens)
    step = step_of(architecture, layout, work)
    flops = step_flops(architecture, layout, work, step.fixed)
    parts = (architecture, layout, work, step)
    return _Point(row.passes_seconds, launches(*parts), kernel_seconds(*parts, flops, card))
