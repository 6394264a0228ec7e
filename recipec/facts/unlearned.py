"""How many of the sampled answers are not learned, as a field of their messages says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes import CARRIED, KINDS, ROW_FORMATS
from recipec.dataset import ASSISTANT, Message, turns_of
from recipec.facts.fact import known
from recipec.facts.sources import SampledSource
from recipec.rules.core import Decision

UNLEARNED = "unlearned_answers"
_WEIGHT = CARRIED["weight"]


def unlearned(sources: Sequence[SampledSource]) -> Iterator[Decision]:
    """Yield unlearned_answers, a sentence, where some sampled answers are not learned."""
    weighed = [source for source in sources if _WEIGHT.name in source.shape.carries]
    answers = [answer for source in weighed for answer in _answers(source)]
    lost = sum(not answer.get("learned") for answer in answers)
    if lost:
        fields = " or ".join(f"`{name}`" for name in dict.fromkeys(name for one in weighed for name in _fields(one)))
        told = f"{lost:,} of {len(answers):,} sampled answers are not learned, as their {fields} says"
        yield known(UNLEARNED, told, "messages of the assistant in the sampled rows", origin="data")


def _answers(source: SampledSource) -> Iterator[Message]:
    """What the assistant says in conversations, of which each message is learned or not."""
    if KINDS[ROW_FORMATS[source.shape.format].kind].masked:
        messages = (message for made in source.made for message in made["messages"])
        yield from (message for message in messages if message["role"] == ASSISTANT[0])


def _fields(source: SampledSource) -> Iterator[str]:
    """The fields that say that an answer is not learned."""
    columns = source.shape.columns.values()
    turns = [turn for row in source.rows for column in columns for turn in turns_of(row.get(column))]
    yield from (name for name in _WEIGHT.fields if any(turn.get(name) == 0 for turn in turns))
