"""The answer of a method's row of defaults: the first whose conditions hold."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS, METHODS, Default, Method
from recipec.rules.core import Choice
from recipec.rules.words import data_size
from recipec.units import number


def method_of(stage: str) -> Method:
    """The row of a stage."""
    return METHODS[stage]


def choose(table: tuple[Default, ...], adaptation: str, examples: int, params: int) -> Choice:
    """The value of the row that applies, why, and the range that it accepts; raises StopIteration where none does."""
    row = next(row for row in table if applies(row, adaptation, examples, params))
    return Choice(row.value, row.because, row.accepts, source=row.source)


def applies(row: Default, adaptation: str, examples: int, params: int) -> bool:
    """Whether all conditions of a row hold, for the adaptation whose values this one takes."""
    tables = ADAPTATIONS[adaptation].tables if adaptation else ""
    return row.holds(tables, data_size(examples), params)


def table_page(method: Method, table: tuple[Default, ...]) -> list[str]:
    """Rows of a Markdown table: method, when, value, accepted range, source."""
    return [f"| {method.title} | {_when(row)} | {number(row.value)} | {_range(row)} | {row.source} |" for row in table]


def _when(row: Default) -> str:
    parts = [" or ".join(row.adaptations), " or ".join(f"{size} rows" for size in row.sizes)]
    parts += [f"under {row.params_below / 1e9:g}B parameters"] if row.params_below < float("inf") else []
    return ", ".join(filter(None, parts)) or "otherwise"


def _range(row: Default) -> str:
    return "-" if row.accepts is None else " to ".join(map(number, row.accepts))
