"""Whether the sampled rows say how hard they are, where the recipe orders them by a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from recipec.axes import METHODS
from recipec.axes.sections import COMMON_SECTION, SECTIONS
from recipec.dataset import RowFault
from recipec.dataset.formats import MOST_NAMES
from recipec.dataset.values import ways_of_numbers
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.row_faults import unusable
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_KEY = ("curriculum", "column")


def hardness_columns(loaded: LoadedRecipe, section: str) -> dict[tuple[str, ...], str]:
    """The columns by which a curriculum orders the rows of a section, each with the key that names it.

    [train] says how the last stage learns: it reads a method's own section where there is one.
    """
    given = [name for name in SECTIONS if loaded.is_set("data", name)]
    own = [name for name in given if name != COMMON_SECTION]
    paths = [("train", *_KEY)] if section in (own or [COMMON_SECTION]) else []
    paths += [("train", name, *_KEY) for name, row in METHODS.items() if row.rows_in(given) == section]
    return {path: loaded.value(*path) for path in paths if loaded.is_set(*path)}


def every_hardness_column(loaded: LoadedRecipe) -> set[str]:
    """Those of all sections, which a file of held-out rows may have."""
    return {column for section in SECTIONS for column in hardness_columns(loaded, section).values()}


def against_order(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield a source that lacks the column of a curriculum (E0401), and rows that hold no number in it (E0304)."""
    for path, column in hardness_columns(loaded, section).items():
        for source in (source for source in sources if source.rows):
            if not any(column in row for row in source.rows):
                yield _no_column(loaded, section, path, column, source)
            elif faults := _faults(column, source):
                yield unusable(section, source.place, faults, len(source.rows))


def _no_column(
    loaded: LoadedRecipe, section: str, path: tuple[str, ...], column: str, source: SampledSource
) -> Diagnostic:
    names = list(source.rows[0])[:MOST_NAMES]
    labels = (
        Label(loaded.place(*path), f"no sampled row of {source.name} has it"),
        Label(source.place, f"the rows have {', '.join(f'`{name}`' for name in names)}"),
    )
    title = f"`{'.'.join(path)}` names the column `{column}`, which {source.name} of data.{section} does not have"
    by_length = 'or order the rows by their tokens: `curriculum = { by = "length" }`'
    help = ("name a column of the rows, or add the column to them", by_length)
    return Diagnostic("E0401", title, labels, help)


def _faults(column: str, source: SampledSource) -> list[RowFault]:
    """The rows without a number, as prepare_data.py would refuse them."""
    placed = zip(source.places, source.rows, strict=True)
    found = {place: row.get(column) for place, row in placed if not _is_number(row.get(column))}
    help = tuple(ways_of_numbers(source.rows, next(iter(found)), column)) if found else ()
    wrong = "which is no number, and says how hard a row is"
    return [RowFault(place, f"`{column}` holds {value!r:.40}, {wrong}", help=help) for place, value in found.items()]


def _is_number(value: Any) -> bool:
    """Also as text, which is all that CSV files hold."""
    try:
        return not isinstance(value, bool) and isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
