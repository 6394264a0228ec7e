"""How many rows the data has and how long they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from recipec.axes import ROW_FORMATS
from recipec.dataset import ASSISTANT, DataShape, Sample
from recipec.facts.fact import known, stated
from recipec.facts.sources import states_rows
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision
from recipec.units import counted

# Vocabularies merge bytes: English, a byte a letter, has 3.94 letters a token with a vocabulary of 128k (Llama 3, arXiv
# 2407.21783, section 3.2), and a letter of Chinese, Japanese or Korean has three bytes. prepare_data.py counts exactly.
BYTES_PER_TOKEN = 4.0
ASSUMED_ROWS, ASSUMED_TOKENS = 10_000, 500  # data that are not read at compile time, such as a dataset on the hub


def sizes(loaded: LoadedRecipe, section: str, samples: list[Sample], shape: DataShape) -> list[Decision]:
    """Return rows and tokens, stated in the recipe, else measured, else assumed; and the answers of conversations."""
    data = loaded.recipe.data
    weights = {source.path: source.weight or 1.0 for source in getattr(data, section)}
    unread = [source for source in getattr(data, section) if source.path not in {sample.file for sample in samples}]
    rows, tokens, longest, how = _measured(samples, weights, [source.weight or 1.0 for source in unread])
    origin = "default" if unread else "data"
    if states_rows(loaded):
        longest, how_long, origin = None, "the recipe states the rows, so none is measured", "recipe"
    elif longest is not None and (data.tokens_per_example or 0) > longest:
        longest, how_long = None, f"the sample's {longest:,} are below the stated mean, so they say nothing"
    else:
        how_long = how
    return [
        stated(loaded, "examples", data.examples or rows, "data", "examples", absent=how, origin=origin),
        stated(
            loaded,
            "tokens_per_example",
            data.tokens_per_example or tokens,
            *("data", "tokens_per_example"),
            absent=how,
            origin=origin,
        ),
        known("tokens_p99", longest, how_long, "tokens_per_example", origin=origin),
        *_answers(samples, shape),
    ]


def _answers(samples: list[Sample], shape: DataShape) -> Iterator[Decision]:
    """How many answers a conversation has, and how much shorter than the whole is what ends with one of them."""
    if ROW_FORMATS[shape.format].answers:
        return
    (column,) = (shape.columns[role.name] for role in ROW_FORMATS[shape.format].required)
    conversations = [row[column] for sample in samples for row in sample.rows]
    parts = [[_tokens(turns[: i + 1]) for i in _answer_places(turns)] for turns in conversations]
    how = f"the answers of {counted(len(conversations), 'sampled conversation')}"
    count = sum(map(len, parts)) / len(parts) if parts else 1.0
    whole = sum(map(_tokens, conversations)) / max(1, len(parts))
    mean = sum(map(sum, parts)) / max(1, sum(map(len, parts)))
    yield known("answers_per_row", round(count, 1), how if parts else "assumed: one", origin="data")
    yield known("answer_share", round(mean / whole, 3) if whole and mean else 1.0, how, origin="data")


def _answer_places(turns: list[dict[str, Any]]) -> list[int]:
    return [index for index, turn in enumerate(turns) if turn.get("role", turn.get("from")) in ASSISTANT]


def answered(decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """The sizes where every answer is a row, with the conversation before it: more rows, and shorter ones."""
    rows, mean = decisions["examples"], decisions["tokens_per_example"]
    each, share = decisions["answers_per_row"], decisions["answer_share"].value
    many = f"{each.value:g} answers in each of {rows.value:,} conversations, {each.because}; {rows.because}"
    shorter = f"a conversation up to one of its answers has {share:.0%} of the whole; {mean.because}"
    return {
        "examples": replace(rows, value=rounded(each.value * rows.value), because=many),
        "tokens_per_example": replace(mean, value=rounded(share * mean.value), because=shorter),
    }


def _measured(
    samples: list[Sample], weights: Mapping[str, float], unread: list[float]
) -> tuple[int, int, int | None, str]:
    """Rows as often as they are drawn, mean and 99th-percentile tokens; rounded, as small changes change no plan.

    `unread` holds the weights of the sources that cannot be looked at: a common number of rows is assumed for each.
    """
    if not samples:
        total = round(ASSUMED_ROWS * sum(unread))
        how = f"assumed: {total:,} rows of {ASSUMED_TOKENS} tokens; [data] can state both"
        return total, ASSUMED_TOKENS, None, how
    lengths = sorted(_tokens(row) for sample in samples for row in sample.rows)
    total = sum(weights[sample.file] * (sample.total_rows or _documents(sample)) for sample in samples)
    mean, p99 = sum(lengths) / len(lengths), lengths[int(0.99 * (len(lengths) - 1))]
    how = f"measured on {len(lengths)} rows at {BYTES_PER_TOKEN:g} bytes a token"
    if unread:
        how += f"; {ASSUMED_ROWS:,} rows are assumed of each source that is not read"
    return rounded(total + ASSUMED_ROWS * sum(unread)), rounded(mean), rounded(p99), how


def _documents(sample: Sample) -> float:
    """How many texts like the sampled one the files hold."""
    (text,) = sample.rows[0].values()
    return max(1.0, sample.total_bytes / len(text.encode()))


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
