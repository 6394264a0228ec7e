"""Sampled rows without an answer or a question, which preparation leaves out and counts (W0542)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.dataset.commands import file_of
from recipec.dataset.refusals import refusals_learned
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.rehearsal import SILENT, UNASKED, RehearsedRow, RehearsedRows, answers_of
from recipec.facts.sources import SampledSource, all_read, states_counts
from recipec.recipe import LoadedRecipe
from recipec.rules.data import dropped_rows_limit


def unanswered(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    """Yield W0542 where sampled rows have an empty answer, or none, or a question that is empty, or none."""
    found, sources, sampled = rehearsal.lost(*SILENT), rehearsal.sources, len(rehearsal.rows)
    if not found:
        return
    reasons = {row.reasons[0] for row in found}
    mute = reasons != {UNASKED}
    lacks = ", or ".join([*["have an empty answer"] * mute, *["ask nothing"] * (UNASKED in reasons)])
    title = f"{len(found)} of {sampled} sampled rows of data.{section} {lacks}"
    help: tuple[str, ...] = (*_refusals(sources), "remove these rows, or correct them")
    if mute and all(file_of(row.place).endswith(".csv") for row in found):
        help += ('to leave rows with empty fields out, counted: `incomplete = "skip"` under [data]',)
    limit = f"more than {dropped_rows_limit().value:.0%}"
    note = f"prepare_data.py leaves out rows that {lacks}, and stops where they are {limit}"
    if not states_counts(loaded, sources) and _stops(rehearsal, found):
        title = f"prepare_data.py will stop: {len(found)} of {sampled} rows of data.{section} {lacks}"
        help += ("to train without them, raise MAX_DROPPED in prepare_data.py of the bundle",)
        note = f"prepare_data.py leaves out rows that {lacks}, and stops because they are {limit} of all rows"
    elif not _too_many(len(found), sampled):
        help = (*_refusals(sources), 'if they may be left out, write allow = ["W0542"] under [recipe]')
    label = Label(loaded.place("data", section), f"the first is {found[0].place}")
    yield Diagnostic("W0542", title, (label,), help, (note,))


def _refusals(sources: Sequence[SampledSource]) -> Iterator[str]:
    """What makes answers of refusals that stand in a field of their own."""
    for source in (source for source in sources if source.rows and source.sample):
        yield from refusals_learned(source.rows, source.places[0], [*source.shape.columns.values()])


def _too_many(lost: int, rows: int) -> bool:
    return lost > dropped_rows_limit().value * rows


def _stops(rehearsal: RehearsedRows, silent: Sequence[RehearsedRow]) -> bool:
    """Whether preparation stops for certain: all rows were read, and too many are left out however they are learned.

    Where every answer becomes a row, a conversation may lose one of several, and one without an answer is no such row.
    """
    most = sum(max(1, len(answers_of(row))) for row in rehearsal.rows)
    return all_read(rehearsal.sources) and _too_many(sum(bool(row.made) for row in silent), most)
