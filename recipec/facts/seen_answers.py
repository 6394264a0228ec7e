"""What a chat template may not write of sampled answers: thoughts, and answers that follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from recipec.axes import KINDS, ROW_FORMATS
from recipec.dataset import ASSISTANT, Converted, DataShape, Message, answers_joined, thoughts
from recipec.dataset.contents import parted
from recipec.dataset.other_tags import thoughts_renamed
from recipec.facts.sources import SampledSource
from recipec.facts.unlearned import learned_places
from recipec.recipe.schema_data import Data

Learned = tuple[list[Message], Message]  # what is said before an answer, and the answer


class SeenAnswers(Struct, frozen=True):
    """The places of the first sampled rows that hold each; "" where none does."""

    told: str = ""  # a learned answer without calls, with its thought in a field of the message
    called: str = ""  # one with calls
    tagged: str = ""  # one with its thought between tags in its text
    follows: str = ""  # one directly behind an answer without a thought
    joined: str = ""  # what makes one answer of such, where a command can
    renamed: str = ""  # what to do where one has its thought between other tags


def seen_answers(sources: Sequence[SampledSource], data: Data) -> SeenAnswers:
    """Where the sampled rows have what not every chat template writes."""
    found = [(place, *pair) for source in sources for place, pair in learned_answers(source, data)]
    thinking = [(place, answer) for place, _, answer in found if answer.get("reasoning_content")]
    told = (place for place, answer in thinking if not answer.get("tool_calls"))
    called = (place for place, answer in thinking if answer.get("tool_calls"))
    tagged = (place for place, _, answer in found if parted(answer["content"])[0])
    follows = next((place for place, before, answer in found if _follows(before, answer)), "")
    joined = next((way for source in sources if follows for way in _joined(source)), "")
    renamed = (way for place, _, answer in found for way in thoughts_renamed(answer["content"], place))
    return SeenAnswers(next(told, ""), next(called, ""), next(tagged, ""), follows, joined, next(renamed, ""))


def _joined(source: SampledSource) -> Iterator[str]:
    """The command for conversations of texts, which takes no thought and no weight of two answers."""
    if source.rows and KINDS[ROW_FORMATS[source.shape.format].kind].masked and "weight" not in source.shape.carries:
        yield from answers_joined(source.rows, source.places, source.shape)


def _follows(before: Sequence[Message], answer: Message) -> bool:
    return bool(before) and before[-1]["role"] == ASSISTANT[0] and not thoughts(before[-1])


def learned_answers(source: SampledSource, data: Data) -> Iterator[tuple[str, Learned]]:
    """The learned answers of the rows, each with the place of its row."""
    if ROW_FORMATS[source.shape.format].turns:
        for place, made in zip(source.places, source.made, strict=True):
            yield from ((place, pair) for pair in _answers(made, source.shape, data))


def _answers(made: Converted, shape: DataShape, data: Data) -> Iterator[Learned]:
    kind = KINDS[ROW_FORMATS[shape.format].kind]
    if kind.masked:
        messages = made["messages"]
        yield from ((messages[:place], messages[place]) for place in learned_places(messages, data))
        return
    for taught in kind.taught:
        turns = [*made.get("prompt", ()), *made[taught]]
        yield from ((turns[: -len(made[taught])], answer) for answer in made[taught][:1])
