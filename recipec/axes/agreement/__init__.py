"""What the rows say of each other: every contradiction between two of them, or within one, with the names of both.

The compiler's first pass refuses to go on with any, so that no rule answers for a row with another row's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from recipec.axes.adaptations import ADAPTATIONS, BASES
from recipec.axes.agreement.adaptations import of_adaptation
from recipec.axes.agreement.formats import of_format, of_kind
from recipec.axes.agreement.hyperparameters import of_all_own
from recipec.axes.agreement.methods import of_method
from recipec.axes.agreement.strategies import of_all_strategies, of_strategy
from recipec.axes.method import Method
from recipec.axes.methods import METHODS
from recipec.axes.models import NAMED_MODELS
from recipec.axes.row_formats import KINDS, ROW_FORMATS
from recipec.axes.sections import SECTIONS
from recipec.axes.strategies import STRATEGIES

_TABLES: dict[str, Mapping[str, Any]] = {
    "method": METHODS,
    "adaptation": ADAPTATIONS,
    "base": BASES,
    "strategy": STRATEGIES,
    "format": ROW_FORMATS,
    "kind": KINDS,
    "section": SECTIONS,
    "model": NAMED_MODELS,
}


def disagreements() -> Iterator[str]:
    """Sentences, each with the names of what contradicts each other; none where all agree."""
    yield from _keys()
    for method in METHODS.values():
        yield from dict.fromkeys(chain.from_iterable(map(of_method, (method, *_changed(method)))))
    yield from of_all_own()
    yield from chain.from_iterable(map(of_adaptation, ADAPTATIONS.values()))
    yield from chain.from_iterable(map(of_strategy, STRATEGIES.values()))
    yield from of_all_strategies()
    yield from chain.from_iterable(map(of_kind, KINDS.values()))
    yield from chain.from_iterable(map(of_format, ROW_FORMATS.values()))


def _keys() -> Iterator[str]:
    """Every table has its rows under their names."""
    for axis, table in _TABLES.items():
        for key, row in table.items():
            if key != row.name:
                yield f"{axis} `{row.name}` is in its table as `{key}`"


def _changed(method: Method) -> Iterator[Method]:
    """The row as each value of its own hyperparameters changes it."""
    for own in method.own:
        for value in own.changes:
            yield method.under({own.name: value})
