"""How many rows the data has and how long they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from recipec.axes import CARRIED, ROW_FORMATS
from recipec.dataset import ASSISTANT, DataShape, Sample
from recipec.facts.fact import known, stated
from recipec.facts.sources import states_rows
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision
from recipec.units import counted

# Vocabularies merge bytes: English, a byte a letter, has 3.94 letters a token with a vocabulary of 128k (Llama 3, arXiv
# 2407.21783, section 3.2), and a letter of Chinese, Japanese or Korean has three bytes. prepare_data.py counts exactly.
BYTES_PER_TOKEN = 4.0
# Qwen's templates write 560 bytes around the tools of a conversation (TRL 1.16, chat_templates/qwen3.jinja).
TOKENS_AROUND_TOOLS = 140
LAST_ANSWER = "last-answer"  # of data.loss_on
_WEIGHTS = CARRIED["weight"].fields
ASSUMED_ROWS, ASSUMED_TOKENS = 10_000, 500  # data that are not read at compile time, such as a dataset on the hub


def sizes(loaded: LoadedRecipe, section: str, samples: list[Sample], shape: DataShape) -> list[Decision]:
    """Return rows and tokens, stated in the recipe, else measured, else assumed; and the answers of conversations."""
    data = loaded.recipe.data
    drawn, unread = _drawn(samples, getattr(data, section))
    lengths = [(_length(row, shape), weight) for row, weight in _rows(drawn)]
    read, assumed = sum(_count(sample) for sample, _ in drawn), ASSUMED_ROWS * len(unread)
    rows = rounded(sum(weight * _count(sample) for sample, weight in drawn) + ASSUMED_ROWS * sum(unread))
    tokens = rounded(_mean(lengths)) if lengths else ASSUMED_TOKENS
    how, origin = _how(len(lengths), rows, unread), "default" if unread else "data"
    longest, how_long = (rounded(_quantile(lengths, 0.99)), how) if lengths else (None, how)
    if states_rows(loaded):
        longest, origin = None, "recipe"
        how = how_long = "the recipe states the rows, so none is measured"
    elif longest is not None and (data.tokens_per_example or 0) > longest:
        longest, how_long = None, f"the sample's {longest:,} are below the stated mean, so they say nothing"
    mean, own = data.tokens_per_example or tokens, data.examples or rounded(read + assumed)
    return [
        stated(loaded, "examples", data.examples or rows, "data", "examples", absent=how, origin=origin),
        known("source_rows", own, f"before weights; {how}", "examples", origin=origin),
        stated(loaded, "tokens_per_example", mean, "data", "tokens_per_example", absent=how, origin=origin),
        known("tokens_p99", longest, how_long, "tokens_per_example", origin=origin),
        *_answers(drawn, shape, data.loss_on == LAST_ANSWER),
    ]


Drawn = list[tuple[Sample, float]]  # what was read of each source, and how often it is drawn
Weighted = list[tuple[float, float]]  # a value, and how many rows have it


def _drawn(samples: list[Sample], sources: Iterable[Any]) -> tuple[Drawn, list[float]]:
    """The samples with the weights of their sources, and the weights of the sources that are not read."""
    weights: dict[str | None, list[float]] = {}
    for source in sources:
        weights.setdefault(source.path, []).append(source.weight or 1.0)
    drawn = [(sample, weights[sample.file].pop(0)) for sample in samples]
    return drawn, [weight for left in weights.values() for weight in left]


def _rows(drawn: Drawn) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Every sampled row, and for how many it stands."""
    for sample, weight in drawn:
        yield from ((row, weight * _count(sample) / len(sample.rows)) for row in sample.rows)


def _count(sample: Sample) -> float:
    """How many rows the files have; of texts, how many like the sampled one."""
    if sample.total_rows is not None:
        return sample.total_rows
    (text,) = sample.rows[0].values()
    return max(1.0, sample.total_bytes / len(text.encode()))


def _how(sampled: int, rows: int, unread: list[float]) -> str:
    if not sampled:
        return f"assumed: {rows:,} rows of {ASSUMED_TOKENS} tokens; [data] can state both"
    how = f"measured on {sampled} rows at {BYTES_PER_TOKEN:g} bytes a token"
    return f"{how}; {ASSUMED_ROWS:,} rows are assumed of each source that is not read" if unread else how


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


def _length(row: Mapping[str, Any], shape: DataShape) -> float:
    """The tokens of a row, with what it carries beside the columns of its format."""
    carried = [name for carry in shape.carries for name in CARRIED[carry].columns]
    frame = TOKENS_AROUND_TOOLS * any(row.get(name) for name in CARRIED["tools"].columns if name in carried)
    return frame + _tokens([row.get(name) for name in (*shape.columns.values(), *carried)])


def _answers(drawn: Drawn, shape: DataShape, last: bool) -> Iterator[Decision]:
    """How many learned answers a conversation has, and how much shorter than the whole is what ends with one."""
    if ROW_FORMATS[shape.format].answers:
        return
    (column,) = (shape.columns[role.name] for role in ROW_FORMATS[shape.format].required)
    conversations = [(row[column], weight) for row, weight in _rows(drawn)]
    ends = ((list(_up_to_answers(turns)), turns, weight) for turns, weight in conversations)
    parts = [(lengths[-1:] if last else lengths, _tokens(turns), weight) for lengths, turns, weight in ends]
    each = sum(weight * len(lengths) for lengths, _, weight in parts)
    if not each:
        yield known("answers_per_row", 1.0, "assumed", origin="default")
        yield known("answer_share", 1.0, "assumed", origin="default")
        return
    how = f"the answers of {counted(len(parts), 'sampled conversation')}"
    count = each / sum(weight for *_, weight in parts)
    share = sum(weight * sum(lengths) for lengths, _, weight in parts) / each
    share /= _mean([(whole, weight) for _, whole, weight in parts])
    yield known("answers_per_row", round(count, 1), how, origin="data")
    yield known("answer_share", round(share, 3), how, origin="data")


def _up_to_answers(turns: list[dict[str, Any]]) -> Iterator[float]:
    """The tokens of a conversation up to each answer that is learned."""
    for turn, length in zip(turns, accumulate(map(_tokens, turns)), strict=True):
        if turn.get("role", turn.get("from")) in ASSISTANT and all(turn.get(name) != 0 for name in _WEIGHTS):
            yield length


def answered(decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """The sizes where every answer is a row, with the conversation before it: more rows, and shorter ones."""
    rows, mean, own = decisions["examples"], decisions["tokens_per_example"], decisions["source_rows"]
    each, share = decisions["answers_per_row"], decisions["answer_share"].value
    answers = "1 answer" if each.value == 1 else f"{each.value:g} answers"
    many = f"{answers} in each of {rows.value:,} conversations, {each.because}; {rows.because}"
    shorter = f"a conversation up to one of its answers has {share:.0%} of the whole; {mean.because}"
    return {
        "examples": replace(rows, value=rounded(each.value * rows.value), because=many),
        "source_rows": replace(own, value=rounded(each.value * own.value), because=many),
        "tokens_per_example": replace(mean, value=rounded(share * mean.value), because=shorter),
    }


def _tokens(value: object) -> float:
    """Estimated tokens of everything textual in a row."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN
    if isinstance(value, dict):
        return sum(_tokens(part) for part in value.values())
    if isinstance(value, list):
        return sum(_tokens(part) for part in value)
    return 0.0


def rounded(value: float) -> int:
    """Round to two significant digits; at least 1."""
    if value < 1:
        return 1
    scale = 10 ** max(0, len(str(int(value))) - 2)
    return max(1, round(value / scale) * scale)
