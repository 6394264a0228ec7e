"""Sampled rows without an answer, which preparation leaves out and counts (W0542)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.dataset import ASSISTANT, Converted, DataShape, Message
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.rules.data import dropped_rows_limit


def unanswered(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0542 where sampled rows have no answer, or an empty one."""
    found = [place for source in sources for place in (*source.unanswered, *_empty(source))]
    sampled = sum(len(source.rows) + len(source.unanswered) for source in sources)
    if not found:
        return
    limit = dropped_rows_limit().value
    title = f"{len(found)} of {sampled} sampled rows of data.{section} have no answer"
    stops = len(found) > limit * sampled
    help = ("remove these rows, or correct them",) if stops else ("if they may be left out, allow this warning",)
    note = f"prepare_data.py leaves out rows without an answer, and stops where they are more than {limit:.0%}"
    label = Label(loaded.place("data", section), f"the first is {found[0]}")
    yield Diagnostic("W0542", title, (label,), help, (note,))


def _empty(source: SampledSource) -> Iterator[str]:
    """The places of rows with an answer that says nothing."""
    if ROW_FORMATS[source.shape.format].turns:
        made = zip(source.places, source.made, strict=True)
        yield from (place for place, row in made if not all(map(_says, _answers(row, source.shape))))


def _answers(made: Converted, shape: DataShape) -> list[Message]:
    taught = KINDS[ROW_FORMATS[shape.format].kind].taught
    columns = [made[name] for name in taught if name in made] or [made.get("messages", [])]
    return [turn for turns in columns for turn in turns if turn["role"] == ASSISTANT[0]]


def _says(message: Message) -> bool:
    return bool(message["content"].strip() or message.get("tool_calls"))
