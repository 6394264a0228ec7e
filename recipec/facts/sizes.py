"""How many rows the data has and how long they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from msgspec.structs import replace

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import IDS
from recipec.catalog.templates import Template
from recipec.dataset import SAMPLE_ROWS, Converted, DataShape, Message
from recipec.facts.converting import KEEP
from recipec.facts.fact import known, stated
from recipec.facts.row_tokens import (
    TOKENS_AROUND_MESSAGE,
    RowHead,
    head_of,
    message_tokens,
    row_tokens,
    thought_tokens,
    tokens_before_answer,
)
from recipec.facts.sources import SampledSource, states_rows
from recipec.facts.token_size import TokenSize, token_size
from recipec.facts.unlearned import learned_places
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import Data, DataSource
from recipec.rules.core import Decision
from recipec.units import counted

ENOUGH_ROWS = 100  # of a sample whose spread counts where the recipe states a longer mean: our decision
ASSUMED_ROWS, ASSUMED_TOKENS = 10_000, 500  # data that are not read at compile time, such as a dataset on the Hub
LONGEST_OF_MEAN = 3  # how much longer than the mean the longest rows are where no row is read, as in DATA-001
STATED = "the recipe states the rows, so none is measured"
GENERAL_TOKENS = "general_tokens"  # the mean length of general rows


def sizes(
    loaded: LoadedRecipe,
    section: str,
    sources: Sequence[SampledSource],
    template: Template | None,
    context: int | None,
) -> tuple[list[Decision], Weighted]:
    """Return rows and tokens, stated in the recipe, else measured, else assumed; and the answers of conversations.

    Beside them the lengths, where they were measured. `context`: the tokens that the model can attend to, where the
    model is known.
    """
    data, head = loaded.recipe.data, head_of(loaded.recipe.data.system, template, token_size(loaded, sources))
    lengths = _sampled(sources, head)
    mean, longest, how_long = _lengths(loaded, sources, head, lengths)
    own_rows = [source.given.examples for source in sources if source.given.examples]
    whole = round if len(own_rows) == len(sources) else rounded
    there, weighed = sum(map(_count, sources)), sum(source.weight * _count(source) for source in sources)
    own, rows = whole(there), whole(weighed)
    how, many = _how_many(sources)
    of_lengths = "data" if all(source.rows for source in sources) else "default"
    of_mean = "default" if any("tokens_per_example" in each for each in assumed_sizes(loaded, sources)) else "data"
    if states_rows(loaded):
        how, many, of_lengths, of_mean = STATED, "recipe", "recipe", "recipe"
    if data.examples and not own_rows:
        own, rows = data.examples, max(1, round(data.examples * weighed / there))
    examples = _stated(loaded, section, sources, "examples", rows, (how, many))
    by_weight = f"{examples.because}; {own:,} before weights" if rows != own else examples.because
    tokens = _stated(loaded, section, sources, "tokens_per_example", mean, (how_long, of_mean))
    found = [
        replace(examples, because=by_weight),
        replace(examples, because=by_weight, id="data_rows"),
        known("source_rows", own, f"before weights; {examples.because}", "examples", origin=examples.origin),
        tokens,
        known("tokens_p99", longest, how_long, "tokens_per_example", origin=of_lengths),
        *_too_long(loaded, sources, head, lengths, context),
        *_answers(sources, data),
    ]
    return found, lengths if longest and tokens.origin == of_lengths == "data" else []


def assumed_sizes(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> tuple[Mapping[str, int], ...]:
    """What is assumed of each source: of those that are not read, the sizes that neither they nor [data] state."""
    data = loaded.recipe.data
    rows_stated = data.examples and not any(source.given.examples for source in sources)
    return tuple({} if source.sample else dict(_assumed_of(source.given, data, rows_stated)) for source in sources)


def _assumed_of(given: DataSource, data: Data, rows_stated: object) -> Iterator[tuple[str, int]]:
    if not (rows_stated or given.examples or given.take):
        yield "examples", ASSUMED_ROWS
    if not (given.tokens_per_example or data.tokens_per_example):
        yield "tokens_per_example", ASSUMED_TOKENS


def _stated(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], id: str, found: int, known_by: tuple[str, str]
) -> Decision:
    """A size of the rows: as sources of the section state their own, else as [data] does, else as it was `found`."""
    own = [index for index, source in enumerate(sources) if getattr(source.given, id)]
    (how, origin), said = known_by, getattr(loaded.recipe.data, id)
    if not own:
        value = found if id == "examples" else said or found
        return stated(loaded, id, value, "data", id, absent=how, origin=origin)
    where = loaded.where("data", section, own[0])
    because = f"set in {where}" if len(own) == len(sources) == 1 else how
    origin = "recipe" if len(own) == len(sources) else origin
    return Decision(id, found, because, origin=origin, key=f"data.{id}", where=where if origin == "recipe" else "")


def lengths_of(
    loaded: LoadedRecipe, sources: Sequence[SampledSource], template: Template | None
) -> tuple[int, int] | None:
    """The mean length in tokens and the one that 99% of rows do not exceed; None where none is read or stated."""
    found = _sampled(sources, head_of(loaded.recipe.data.system, template, token_size(loaded, sources)))
    every = [*found, *_assumed(loaded, sources)]
    return (rounded(_mean(_taught(every, loaded, sources))), rounded(_quantile(every, 0.99))) if found else None


def rows_read(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> int | None:
    """The rows of all sources, rounded; None where one is not read at compile time, or the recipe states the rows."""
    seen = all(source.sample for source in sources) and not states_rows(loaded)
    seen = seen or all(source.given.examples for source in sources)
    return rounded(sum(map(_count, sources))) if seen else None


def rows_there(sources: Sequence[SampledSource]) -> int | None:
    """The rows of all sources, as counted or estimated; None where one is not read at compile time."""
    return round(sum(map(_count, sources))) if all(source.sample for source in sources) else None


def _too_long(
    loaded: LoadedRecipe, sources: Sequence[SampledSource], head: RowHead, lengths: Weighted, context: int | None
) -> Iterator[Decision]:
    """The shares of the sampled rows that a stated max_length, or else the model's context, is too short for.

    Of those that are longer some have no answer within it: they are lost where longer rows are cut, too.
    """
    wish = loaded.recipe.data.max_length
    most = wish or context
    if most is None or states_rows(loaded) or not any(source.rows for source in sources):
        return
    share = longer_share(lengths, most)
    how = f"of {sampled(len(lengths), 'sampled row')}" + f", at {head.size.told}" * (not _are_tokens(sources))
    if wish or share:
        yield known("rows_too_long", round(share, 3), how, "max_length", origin="data")
        lost = longer_share([*_unanswered(sources, head)], most)
        yield known("rows_unanswered", round(lost, 3), how, "max_length", origin="data")


def _unanswered(sources: Sequence[SampledSource], head: RowHead) -> Iterator[tuple[float, float]]:
    """The length of each sampled row up to the first token of its answer, and for how many rows it stands."""
    for source in sources:
        for (length, rows), made in zip(_lengths_of(source, head), source.made, strict=False):
            asked, whole = tokens_before_answer(made, source.shape, head), row_tokens(made, source.shape, head)
            yield length * asked / max(whole, 1) + 1, rows


def longer_share(lengths: Weighted, most: float) -> float:
    """The share of the rows that are longer than `most`."""
    return sum(rows for length, rows in lengths if length > most) / sum(rows for _, rows in lengths)


def mean_up_to(lengths: Weighted, most: float) -> int:
    """The mean length of rows as far as training reads them."""
    return rounded(_mean([(min(length, most), rows) for length, rows in lengths]))


def _sampled(sources: Sequence[SampledSource], head: RowHead) -> Weighted:
    """The length of each sampled row, and for how many it stands."""
    return [pair for source in sources for pair in _lengths_of(source, head)]


def _lengths_of(source: SampledSource, head: RowHead) -> Weighted:
    """The length of each sampled row of a source; where none is sampled, the one that the source states."""
    said, by = source.given.tokens_per_example, _stretch(source)
    found = [(by * row_tokens(made, source.shape, head), n) for made, n in _rows(source)]
    if said and found:
        return [(length * said / _mean(found), n) for length, n in found]
    return [(float(said), source.weight * _count(source))] if said else found


def _assumed(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> Weighted:
    """The mean length of the rows of each source that is not read, and that does not state it."""
    mean = loaded.recipe.data.tokens_per_example or ASSUMED_TOKENS
    unread = [source for source in sources if not (source.sample or source.given.tokens_per_example)]
    return [(mean, source.weight * _count(source)) for source in unread]


Weighted = Sequence[tuple[float, float]]  # a value, and how many rows have it


def _taught(lengths: Weighted, loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> Weighted:
    """The lengths as far as they are learned: one row of a million tokens teaches no more than the longest that stay.

    Raw text is cut into pieces, all of which are learned.
    """
    if not all(ROW_FORMATS[source.shape.format].turns for source in sources):
        return lengths
    most = loaded.recipe.data.max_length or _quantile(lengths, 0.99)
    return [(min(length, most), rows) for length, rows in lengths]


def _lengths(
    loaded: LoadedRecipe, sources: Sequence[SampledSource], head: RowHead, lengths: Weighted
) -> tuple[int, int | None, str]:
    """The mean length of the rows, the one that 99% of them do not exceed, and how they are known."""
    data = loaded.recipe.data
    own = [source for source in sources if source.given.tokens_per_example]
    if states_rows(loaded) and not own:
        return ASSUMED_TOKENS, None, STATED
    if not lengths:
        return ASSUMED_TOKENS, None, "assumed, since no row is read here; data.tokens_per_example can state it"
    unread = _assumed(loaded, sources)
    every = [*lengths, *unread]
    if any(len(source.rows) < ENOUGH_ROWS for source in own):
        return _stated_mean(every, own, sources), None, "as the sources state it, which says nothing of long rows"
    longest = rounded(_quantile([*lengths, *((LONGEST_OF_MEAN * mean, rows) for mean, rows in unread)], 0.99))
    how = f"measured on {sampled(len(lengths), 'row')}" + f" at {head.size.told}" * (not _are_tokens(sources))
    if any(_stretch(source) != 1 for source in sources):
        how += ", and on the size of all files"
    if any(ROW_FORMATS[source.shape.format].turns for source in sources):
        how += f", and {TOKENS_AROUND_MESSAGE} tokens of the chat template for each message"
        how += f" and {head.always + head.otherwise:g} before the first" * bool(head.always + head.otherwise)
    if unread:
        how += f"; assumed of rows that are not read: a mean of {unread[0][0]:,}, {LONGEST_OF_MEAN} times that at most"
    mean = rounded(_mean(_taught(every, loaded, sources)))
    if own:
        return _stated_mean(every, own, sources), longest, "as the sources state it"
    if (said := data.tokens_per_example or 0) > mean and (unread or len(lengths) < ENOUGH_ROWS):
        return (
            mean,
            None,
            f"{counted(len(lengths), 'sampled row')} below the stated mean say nothing of the others",
        )
    if said > mean:  # rows like these, and longer: their spread stays
        longest = rounded(longest * said / mean)
        return mean, longest, f"the lengths of the sample, whose mean is {mean:,}, stretched to the stated mean"
    return mean, None if unread and longest <= LONGEST_OF_MEAN * mean else longest, how


def _are_tokens(sources: Sequence[SampledSource]) -> bool:
    """Whether all rows are counted as they are, and no text is measured."""
    return all(source.shape.content == IDS for source in sources)


def _stated_mean(lengths: Weighted, own: Sequence[SampledSource], sources: Sequence[SampledSource]) -> int:
    """The mean length over sources of which some, or all, state theirs."""
    return round(_mean(lengths)) if len(own) == len(sources) else rounded(_mean(lengths))


def _how_many(sources: Sequence[SampledSource]) -> tuple[str, str]:
    """How the number of rows is known, and its origin."""
    read = [source.sample for source in sources if source.sample and not source.given.examples]
    stated = [source for source in sources if source.given.examples or (not source.sample and source.given.take)]
    assumed = [source.name for source in sources if not source.sample and source not in stated]
    how = []
    if read:
        exact = all(sample.counted for sample in read)
        how.append("counted in the files, rounded" if exact else "estimated from the size of the files")
    if stated:
        how.append(", ".join(f"{counted(int(_count(source)), 'row')} of {source.name}" for source in stated))
    if assumed:
        own = "its key `examples`" if len(assumed) == 1 else "the key `examples` of each"
        key = own if any(source.given.examples for source in sources) else "data.examples"
        how.append(f"{ASSUMED_ROWS:,} assumed of {' and of '.join(assumed)}, which {key} can correct")
    return "; ".join(how), "default" if assumed else "data" if read else "recipe"


def _rows(source: SampledSource) -> Iterator[tuple[Converted, float]]:
    """What becomes of every sampled row, and for how many rows it stands."""
    return ((made, source.weight * _count(source) / len(source.made)) for made in source.made)


def _count(source: SampledSource) -> float:
    """How many rows are taken of the source."""
    return min(_total(source), source.given.take or math.inf)


def _total(source: SampledSource) -> float:
    """How many rows the source has."""
    read = source.sample.total_rows if source.sample else source.given.take
    return source.given.examples or read or ASSUMED_ROWS


def _stretch(source: SampledSource) -> float:
    """How much longer the rows are than the sampled ones, where the sizes of the files tell it: of texts."""
    if source.sample is None or source.sample.bytes_each is None:
        return 1.0
    read = [len(text.encode()) for row in source.sample.rows for text in row.values()]
    return round(source.sample.bytes_each * len(read) / sum(read), 4)


def _mean(values: Weighted) -> float:
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def _quantile(values: Weighted, share: float) -> float:
    """The value that a share of the rows does not exceed."""
    left = share * sum(weight for _, weight in values)
    for value, weight in sorted(values):
        left -= weight
        if left <= 0:
            return value
    return max(values)[0]


def _answers(sources: Sequence[SampledSource], data: Data) -> Iterator[Decision]:
    """How many learned answers a row has, and how much shorter than the whole is what ends with one.

    Nothing where no rows are conversations. Rows of one answer beside them are whole.
    """
    if all(ROW_FORMATS[source.shape.format].answers for source in sources):
        return
    parts = [(*learned_ends(made, source.shape, data), weight) for source in sources for made, weight in _rows(source)]
    each = sum(weight * len(lengths) for lengths, _, weight in parts)
    if not each:
        yield known("answers_per_row", 1.0, "assumed", origin="default")
        yield known("answer_share", 1.0, "assumed", origin="default")
        return
    how = f"the answers of {sampled(len(parts), 'sampled conversation')}"
    how += ", and one in each row that is not read" * any(source.sample is None for source in sources)
    unread = sum(source.weight * _count(source) for source in sources if not source.sample)
    count = (each + unread) / (unread + sum(weight for *_, weight in parts))
    share = sum(weight * sum(lengths) for lengths, _, weight in parts) / each
    share /= _mean([(whole, weight) for _, whole, weight in parts])
    yield known("answers_per_row", round(count, 1), how, origin="data")
    yield known("answer_share", round(share, 3), how, origin="data")


def answers_each(sources: Sequence[SampledSource], data: Data) -> float:
    """How many learned answers a row has; one where no rows are conversations, or none was read."""
    return next((fact.value for fact in _answers(sources, data) if fact.id == "answers_per_row"), 1.0)


def learned_ends(made: Converted, shape: DataShape, data: Data) -> tuple[list[float], float]:
    """The tokens of a row up to each answer that is learned, and of all of it."""
    if ROW_FORMATS[shape.format].answers:
        whole = row_tokens(made, shape, RowHead())
        return [whole], whole
    messages = made["messages"]
    reached = [*accumulate(message_tokens(message, TokenSize()) for message in messages)]  # for a share of them
    shown = [*_shown(messages, reached)] if data.reasoning == KEEP else reached
    return [shown[place] for place in learned_places(messages, data)], reached[-1]


def _shown(messages: Sequence[Message], reached: Sequence[float]) -> Iterator[float]:
    """What is reached with each message, without the thoughts before its question: templates show none of these."""
    thought = hidden = 0.0
    for message, length in zip(messages, reached, strict=True):
        if message["role"] == "user":
            hidden = thought
        thought += thought_tokens(message, TokenSize())
        yield length - hidden


def sampled(count: int, noun: str) -> str:
    """How many rows were read; of small files, read to their end, rounded: a row more is to change no text."""
    return counted(count, noun) if count <= SAMPLE_ROWS else f"about {rounded(count):,} {noun}s"


def rounded(value: float) -> int:
    """Round to two significant digits; at least 1."""
    if value < 1:
        return 1
    scale = 10 ** max(0, len(str(int(value))) - 2)
    return max(1, round(value / scale) * scale)
