"""Pairs whose columns the recipe names, beside a column that says which of both answers is better, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes.row_formats import PREFERENCE
from recipec.dataset import from_published
from recipec.dataset.duels import Duel, duel_of
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_BETTER, _WORSE = (role.name for role in PREFERENCE.required)


def judged_otherwise(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0308 where sampled rows name the rejected answer as the better one."""
    for source in sources:
        yield from (_against(section, source, duel, lost) for duel, lost in _lost(loaded, source))


def judges(loaded: LoadedRecipe, source: SampledSource) -> list[str]:
    """The column of a source that E0308 is reported of."""
    return [duel.judge for duel, _ in _lost(loaded, source)]


def _lost(loaded: LoadedRecipe, source: SampledSource) -> Iterator[tuple[Duel, list[str]]]:
    """The columns of both answers and of the better one, with the places of rows that the rejected answer wins."""
    duel = duel_of(source.rows) if source.shape.format == PREFERENCE.name and source.rows else None
    columns = source.shape.columns
    if duel is None or duel.judge in (loaded.recipe.data.ignore or ()):
        return
    if {columns[_BETTER], columns[_WORSE]} == {*duel.names}:
        worse = columns[_WORSE].removeprefix(duel.side)
        lost = [place for place, won in zip(source.places, duel.winners, strict=True) if won == worse]
        yield from [(duel, lost)] * bool(lost)


def _against(section: str, source: SampledSource, duel: Duel, lost: Sequence[str]) -> Diagnostic:
    columns = source.shape.columns
    said = f"`{duel.judge}` names `{columns[_WORSE]}`, the rejected answer, in {len(lost):,} of {len(source.rows):,} "
    said += f"sampled rows, the first {lost[0]}"
    command = (*from_published(source.rows, source.places, [PREFERENCE]),)
    help = (
        *(f"{line}, then name the new file, and remove `columns`" for line in command),
        f'if `{duel.judge}` means something else: `ignore = ["{duel.judge}"]` under [data]',
    )
    title = f"the rows of data.{section} say which answer is better, and `columns` says otherwise"
    note = "a pair whose better answer is learned as the rejected one teaches the opposite"
    return Diagnostic("E0308", title, (Label(source.place, said),), help, (note,))
