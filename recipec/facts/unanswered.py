"""Sampled rows without an answer or a question, which preparation leaves out and counts (W0542)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.dataset import ASSISTANT, Converted, DataShape, Message, asks, says
from recipec.dataset.commands import file_of
from recipec.dataset.contents import THOUGHT
from recipec.dataset.refusals import refusals_learned
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource, all_read, states_counts
from recipec.recipe import LoadedRecipe
from recipec.rules.data import dropped_rows_limit


def unanswered(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0542 where sampled rows have an empty answer, or none, or a question that is empty, or none."""
    mute = {place for source in sources for place in (*source.unanswered, *_empty(source))}
    unasked = {place for source in sources for place in _unasked(source)} - mute
    lacks = ", or ".join([*["have an empty answer"] * bool(mute), *["ask nothing"] * bool(unasked)])
    read = (place for source in sources for place in source.read or source.places)
    found = [place for place in read if place in mute | unasked]
    sampled = sum(len(source.rows) + len(source.unanswered) for source in sources)
    if not found:
        return
    title = f"{len(found)} of {sampled} sampled rows of data.{section} {lacks}"
    help: tuple[str, ...] = (*_refusals(sources), "remove these rows, or correct them")
    if mute and all(file_of(place).endswith(".csv") for place in found):
        help += ('to leave rows with empty fields out, counted: `incomplete = "skip"` under [data]',)
    limit = f"more than {dropped_rows_limit().value:.0%}"
    note = f"prepare_data.py leaves out rows that {lacks}, and stops where they are {limit}"
    if not states_counts(loaded, sources) and _stops(sources, mute | unasked):
        title = f"prepare_data.py will stop: {len(found)} of {sampled} rows of data.{section} {lacks}"
        help += ("to train without them, raise MAX_DROPPED in prepare_data.py of the bundle",)
        note = f"prepare_data.py leaves out rows that {lacks}, and stops because they are {limit} of all rows"
    elif not _too_many(len(found), sampled):
        help = (*_refusals(sources), 'if they may be left out, write allow = ["W0542"] under [recipe]')
    label = Label(loaded.place("data", section), f"the first is {found[0]}")
    yield Diagnostic("W0542", title, (label,), help, (note,))


def _refusals(sources: Sequence[SampledSource]) -> Iterator[str]:
    """What makes answers of refusals that stand in a field of their own."""
    for source in (source for source in sources if source.rows and source.sample):
        yield from refusals_learned(source.rows, source.places[0], [*source.shape.columns.values()])


def _too_many(lost: int, rows: int) -> bool:
    return lost > dropped_rows_limit().value * rows


def _stops(sources: Sequence[SampledSource], lost: Collection[str]) -> bool:
    """Whether preparation stops for certain: all rows were read, and too many are left out however they are learned.

    Where every answer becomes a row, a conversation may lose one of several, and one without an answer is no such row.
    """
    if not all_read(sources):
        return False
    answers = [
        (place, len(_answers(made, source.shape)))
        for source in sources
        for place, made in zip(source.places, source.made, strict=True)
    ]
    rows = sum(len(source.unanswered) for source in sources) + sum(max(1, count) for _, count in answers)
    return _too_many(sum(place in lost for place, _ in answers), rows)


def teaching_nothing(source: SampledSource) -> set[str]:
    """The places of converted rows without an answer or a question."""
    return {*_empty(source), *_unasked(source)}


def _empty(source: SampledSource) -> Iterator[str]:
    """The places of rows with an answer that says nothing."""
    if ROW_FORMATS[source.shape.format].turns:
        made = zip(source.places, source.made, strict=True)
        yield from (place for place, row in made if not all(map(says_something, _answers(row, source.shape))))


def _unasked(source: SampledSource) -> Iterator[str]:
    """The places of rows in which nothing is asked, or one of several questions is empty."""
    if ROW_FORMATS[source.shape.format].turns:
        yield from (place for place, row in zip(source.places, source.made, strict=True) if not asks(row))


def _answers(made: Converted, shape: DataShape) -> list[Message]:
    taught = KINDS[ROW_FORMATS[shape.format].kind].taught
    columns = [made[name] for name in taught if name in made] or [made.get("messages", [])]
    return [turn for turns in columns for turn in turns if turn["role"] == ASSISTANT[0]]


def says_something(message: Message) -> bool:
    """Whether an answer has a text behind its thought, or calls a tool."""
    answer = message["content"].rpartition(THOUGHT[1])[2]
    return says(answer) or bool(message.get("tool_calls"))
