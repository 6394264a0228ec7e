"""Which answers of a conversation are learned, and how many of the sampled ones their weights leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recipec.axes import CARRIED, KINDS, ROW_FORMATS
from recipec.dataset import ASSISTANT, Message, turns_of
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.fact import known
from recipec.facts.sources import SampledSource, all_read
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import Data
from recipec.rules.core import Decision

LAST_ANSWER = "last-answer"  # of data.loss_on
UNLEARNED = "unlearned_answers"
_WEIGHT = CARRIED["weight"]


def learned_places(messages: Sequence[Message], data: Data) -> list[int]:
    """The places of the messages that are learned; of the last answer alone, none where its weight is 0."""
    return [place for place in _asked_for(messages, data) if messages[place].get("learned")]


def _asked_for(messages: Sequence[Message], data: Data) -> list[int]:
    """The places of the answers that data.loss_on names."""
    answers = [place for place, message in enumerate(messages) if message["role"] == ASSISTANT[0]]
    return answers[-1:] if data.loss_on == LAST_ANSWER else answers


def unlearned(sources: Sequence[SampledSource], data: Data) -> Iterator[Decision]:
    """Yield unlearned_answers, a sentence, where weights leave out some of the sampled answers."""
    weighed = [source for source in sources if _WEIGHT.name in source.shape.carries]
    answers = [answer for source in weighed for answer in _answers(source, data)]
    lost = sum(not answer.get("learned") for answer in answers)
    if lost:
        said = f"are not learned, as their {_named(weighed)} says"
        told = f"{lost:,} of {len(answers):,} sampled {_which(data)} {said}"
        yield known(UNLEARNED, told, "messages of the assistant in the sampled rows", origin="data")


def nothing_learned(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0304 where every row was read, and weights leave out every answer."""
    data, formats = loaded.recipe.data, {source.shape.format for source in sources}
    talks = all(KINDS[ROW_FORMATS[format].kind].masked for format in formats)
    answers = [answer for source in sources for answer in _answers(source, data)]
    if talks and answers and all_read(sources) and not any(answer.get("learned") for answer in answers):
        said = f"{len(answers)} of {len(answers)} {_which(data)} are left out by their {_named(sources)}"
        wanted = "give what is to be learned the weight 1"
        help = f"remove `loss_on`, or {wanted}" if data.loss_on == LAST_ANSWER else wanted
        title = f"nothing of data.{section} is learned"
        yield Diagnostic("E0304", title, (Label(loaded.place("data", section), said),), (help,))


def _which(data: Data) -> str:
    return "last answers" if data.loss_on == LAST_ANSWER else "answers"


def _named(sources: Iterable[SampledSource]) -> str:
    """The fields of these sources that say that an answer is not learned."""
    return " or ".join(f"`{name}`" for name in dict.fromkeys(name for one in sources for name in _fields(one)))


def _answers(source: SampledSource, data: Data) -> Iterator[Message]:
    """What the assistant says in conversations, of which each message is learned or not."""
    if KINDS[ROW_FORMATS[source.shape.format].kind].masked:
        for made in source.made:
            yield from (made["messages"][place] for place in _asked_for(made["messages"], data))


def _fields(source: SampledSource) -> Iterator[str]:
    """The fields that say that an answer is not learned."""
    columns = source.shape.columns.values()
    turns = [turn for row in source.rows for column in columns for turn in turns_of(row.get(column))]
    yield from (name for name in _WEIGHT.fields if any(turn.get(name) == 0 for turn in turns))
