"""Repeat something until its time is known: the median of steady repetitions, and how far they spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles

from msgspec import Struct

LEAST, MOST = 5, 200  # repetitions that are counted
WARM_UPS = 2  # are not: allocators, caches and the choice of a kernel come first

Work = Callable[[], object]


class Timed(Struct, frozen=True):
    """One measured figure, in the unit of its key."""

    value: float
    spread: float  # distance of the 10th and the 90th percentile, as a share of the median


def repeated(work: Work, budget_seconds: float, wait: Work | None = None) -> list[float]:
    """Seconds of each repetition of `work`; `wait` returns when the device has finished."""
    seconds: list[float] = []
    for _ in range(WARM_UPS):
        _once(work, wait)
    end = time.perf_counter() + budget_seconds
    while len(seconds) < LEAST or (time.perf_counter() < end and len(seconds) < MOST):
        seconds.append(_once(work, wait))
    return seconds


def _once(work: Work, wait: Work | None) -> float:
    started = time.perf_counter()
    work()
    if wait:
        wait()
    return time.perf_counter() - started


def figure(values: Sequence[float]) -> Timed:
    """The median and the spread of at least two values."""
    middle, tenths = median(values), quantiles(values, n=10, method="inclusive")
    return Timed(middle, (tenths[-1] - tenths[0]) / middle)


def rate(amount: float, seconds: Sequence[float]) -> Timed:
    """What is done of `amount` in a second."""
    return figure([amount / each for each in seconds])
