"""Pairs with a rating of each answer beside them, which say that the rejected answer is the better one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recipec.axes.row_formats import PREFERENCE, RATING_WORDS
from recipec.dataset.contents import Row, names_in
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_RATE = (*RATING_WORDS, "reward")
_BETTER, _WORSE = (role.name for role in PREFERENCE.required)


def rated_otherwise(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0560 where sampled pairs have a higher rating of the rejected answer than of the chosen one."""
    for source in (source for source in sources if source.shape.format == PREFERENCE.name):
        for better, worse in _ratings(source):
            placed = zip(source.places, source.rows, strict=True)
            found = [(place, row) for place, row in placed if _is_lower(row, better, worse)]
            if found:
                yield _warning(loaded, section, (better, worse), found, len(source.rows))


def _ratings(source: SampledSource) -> Iterator[tuple[str, str]]:
    """The columns that rate the chosen and the rejected answer, by their names: `score_chosen`, `score_rejected`."""
    names, columns = names_in(source.rows), source.shape.columns
    for name in (name for name in names if any(word in name.lower() for word in _RATE)):
        for better, worse in ((_BETTER, _WORSE), (columns[_BETTER], columns[_WORSE])):
            if better in name and (other := name.replace(better, worse)) in names:
                yield name, other
                break


def _is_lower(row: Row, better: str, worse: str) -> bool:
    """Whether a row has both ratings, and that of the chosen answer is the lower one."""
    chosen, rejected = _number(row.get(better)), _number(row.get(worse))
    return chosen is not None and rejected is not None and chosen < rejected


def _number(value: Any) -> float | None:
    """What a rating says, also as text, which CSV files have alone."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _warning(
    loaded: LoadedRecipe, section: str, names: tuple[str, str], found: Sequence[tuple[str, Row]], sampled: int
) -> Diagnostic:
    (better, worse), (place, row) = names, found[0]
    title = f"{len(found):,} of {sampled:,} sampled pairs of data.{section} have a higher rating of the rejected answer"
    shown = f"the first is {place}: `{better}` is {row[better]}, `{worse}` is {row[worse]}"
    help = (
        "if a higher rating is better, exchange the answers of these rows, or remove the rows",
        'if the ratings mean something else, write allow = ["W0560"] under [recipe]',
    )
    note = "training prefers the chosen answer, and reads no rating"
    return Diagnostic("W0560", title, (Label(loaded.place("data", section), shown),), help, (note,))
