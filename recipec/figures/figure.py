"""What a figure of the rule books is, and how it is judged: their number, our number, and a verdict from the two.

A figure is a small pure function that computes our number; nothing is stored, so a verdict moves with the estimates.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from math import ceil, inf

from msgspec import Struct

HOLDS = 0.05  # the estimates' own error: benchmarks/results; closer than this is the same number
NEAR = 0.2  # as far apart as two honest rules of thumb
NOT_COMPUTED = "cannot be computed"


class Stated(Struct, frozen=True):
    """The number of a rule book: a value, a range, or one end of one."""

    low: float
    high: float
    unit: str  # "GB", "%", "x", "$", …


class Ours(Struct, frozen=True):
    """Our number and how it came about; `value` is None where no estimate has it, and then `shown` may say more."""

    value: float | None
    how: str
    shown: str = ""


class Figure(Struct, frozen=True):
    """A registered figure: what the book says, and the function that computes what we say."""

    id: str
    states: str
    book: str  # "docs/rule-books/003.md, Reference"
    stated: Stated
    does: str  # what recipec does about it
    rules: tuple[str, ...]  # ids of the rules that rely on it
    function: Callable[[], Ours]

    @property
    def because(self) -> str:
        return " ".join(cleandoc(self.function.__doc__ or "").split())

    def __call__(self) -> Ours:
        return self.function()


FIGURES: dict[str, Figure] = {}


def figure(
    id: str, states: str, stated: Stated, *, book: str, does: str, rules: tuple[str, ...] = ()
) -> Callable[[Callable[[], Ours]], Figure]:
    """Register the function that computes our number of a figure, under an id that is never reused.

    The first digit of an id is the rule book's last. The function's docstring says why the numbers differ or agree.
    """

    def register(function: Callable[[], Ours]) -> Figure:
        assert id not in FIGURES, f"figure id {id} is used twice"
        FIGURES[id] = Figure(id, states, book, stated, does, rules, function)
        return FIGURES[id]

    return register


def about(value: float, unit: str) -> Stated:
    """A single number."""
    return Stated(value, value, unit)


def between(low: float, high: float, unit: str) -> Stated:
    """A range, its ends in it."""
    return Stated(low, high, unit)


def at_most(value: float, unit: str) -> Stated:
    """Something that fits: our number may be smaller."""
    return Stated(0.0, value, unit)


def at_least(value: float, unit: str) -> Stated:
    """Something that is promised: our number may be larger."""
    return Stated(value, inf, unit)


def verdict(stated: Stated, ours: float | None) -> str:
    """Judge the book's number by ours: it holds, nearly holds, or is too low or too high.

    A limit is kept or not; a range has its own width; only a single number can nearly hold.
    """
    if ours is None:
        return NOT_COMPUTED
    over = ours / stated.high - 1
    under = 1 - ours / stated.low if stated.low else -1.0
    off = max(over, under)
    is_limit = not stated.low or stated.high == inf
    if off <= (0 if is_limit else HOLDS):
        return "holds"
    if off <= NEAR and stated.low == stated.high:
        return f"holds within {ceil(100 * off)} %"
    return "too low" if over > under else "too high"


def shown(value: float, unit: str) -> str:
    """A number with its unit: "16.9 GB", "2.91x", "$921,600", "0.59 %", "1 GPU"."""
    digits = 0 if value >= 100 or value == round(value) else 1 if value >= 10 else 2
    text = f"{value:,.{digits}f}"
    if unit == "$":
        return f"${text}"
    return f"{text}x" if unit == "x" else f"{text} {unit.removesuffix('s') if value == 1 else unit}"
