"""What a plan and its warnings say of sampled rows that preparation leaves out and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.dataset.commands import file_of
from recipec.dataset.refusals import refusals_learned
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.conversations import answers_in
from recipec.facts.rehearsal import (
    CONTRADICTORY,
    DUPLICATE,
    EMPTY,
    EQUAL,
    FEWEST_COUNTED,
    SILENT,
    UNASKED,
    RehearsedRows,
    judged,
)
from recipec.facts.sources import SampledSource, all_read, states_counts
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision
from recipec.rules.data import dropped_rows_limit

# Recipec's choice: a few duplicates occur in most data, and rows for a first try are often one row several times.
MOST_UNTOLD = 0.1  # of the sampled rows
_WORDS = {
    **dict.fromkeys(SILENT, "have no answer or ask nothing"),
    DUPLICATE: "are exact duplicates",
    **dict.fromkeys((EQUAL, CONTRADICTORY), "prefer nothing or contradict others"),
}


def without_left_out(sizes: Sequence[Decision], rehearsal: RehearsedRows) -> list[Decision]:
    """The sizes of the data without rows that preparation will leave out, where these are counted."""
    if (counts := rehearsal.counts) is None:
        return [*sizes]
    rows, told = counts.sizes, counts.told("rows", _WORDS)
    counted = (size for size in sizes if size.id in rows and size.origin == "data")
    fewer = {size.id: replace(size, value=rows[size.id], because=f"{size.because}; {told}") for size in counted}
    return [fewer.get(size.id, size) for size in sizes]


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
    if not states_counts(loaded, sources) and _stops(rehearsal):
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


def _stops(rehearsal: RehearsedRows) -> bool:
    """Whether preparation stops for certain: all rows were read, and too many are left out however they are learned.

    Where every answer becomes a row, a conversation may lose one of several, and one without an answer is no such row.
    """
    answers = (len([*answers_in(row.made, row.source.shape)]) for row in rehearsal.converted)
    most = len(rehearsal.rows) + sum(count - 1 for count in answers if count)
    return all_read(rehearsal.sources) and _too_many(len(rehearsal.lost(EMPTY, UNASKED)), most)


def equal_answers(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    """Yield W0550 where sampled pairs prefer an answer to itself."""
    if found := rehearsal.lost(EQUAL):
        pairs = f"{len(found)} of {len(rehearsal.converted)} sampled pairs"
        title = f"{pairs} of data.{section} have the same answer on both sides"
        label = Label(loaded.place("data", section), f"the first is {found[0].place}")
        help = (
            'if they may be left out, write allow = ["W0550"] under [recipe]',
            "if they are many, look for what made both answers alike",
        )
        note = "prepare_data.py leaves out pairs that prefer nothing, and counts them as `equal`"
        yield Diagnostic("W0550", title, (label,), help, (note,))


def opposite_answers(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    """Yield W0552 where sampled rows prefer, or label, the opposite of what others do."""
    if found := rehearsal.lost(CONTRADICTORY):
        common, preferred = judged(found[0])
        other = next(row for row in found if judged(row)[0] == common and judged(row)[1] != preferred)
        title = f"{len(found)} of {len(rehearsal.converted)} sampled rows of data.{section} contradict others"
        judging = f"{found[0].place} and {other.place} judge the same answers in opposite ways"
        help = (
            "keep the row of each two that is right, and remove the other",
            'if they may be left out, write allow = ["W0552"] under [recipe]',
        )
        notes = ["prepare_data.py leaves out all of them, and counts them as `contradictory`"]
        notes += ["the plan counts them as rows, as not all rows were read"] * _counts_all(loaded, rehearsal)
        yield Diagnostic("W0552", title, (Label(loaded.place("data", section), judging),), help, (*notes,))


def many_repeated(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    """Yield W0553 where more than a tenth of the sampled rows are exact duplicates of others."""
    found, sampled = rehearsal.lost(DUPLICATE), len(rehearsal.converted)
    if len(found) >= FEWEST_COUNTED and len(found) > MOST_UNTOLD * sampled:
        title = f"{len(found)} of {sampled} sampled rows of data.{section} are exact duplicates of others"
        label = Label(loaded.place("data", section), f"the first is {found[0].place}")
        help = (
            "remove them; a source that is to count more takes `weight`",
            'if they may be left out, write allow = ["W0553"] under [recipe]',
        )
        counts = "; the plan counts them, as not all rows were read" * _counts_all(loaded, rehearsal)
        note = f"prepare_data.py keeps one row of each, and counts the others as `duplicates`{counts}"
        yield Diagnostic("W0553", title, (label,), help, (note,))


def _counts_all(loaded: LoadedRecipe, rehearsal: RehearsedRows) -> bool:
    """Whether the plan counts rows that are left out, since nothing says how many they are."""
    return not all_read(rehearsal.sources) and not states_counts(loaded, rehearsal.sources)
