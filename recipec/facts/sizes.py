"""How many rows the data has and how long they are."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.dataset import Sample
from recipec.facts.fact import known, stated
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

CHARACTERS_PER_TOKEN = 4.0  # English text with a byte-pair vocabulary of 32k or more; counted exactly by prepare_data
ASSUMED_ROWS, ASSUMED_TOKENS = 10_000, 500  # data that are not read at compile time, such as a dataset on the hub


def sizes(loaded: LoadedRecipe, section: str, samples: list[Sample]) -> list[Decision]:
    """Return rows and tokens: stated in the recipe, else measured, else assumed."""
    data = loaded.recipe.data
    weights = {source.path: source.weight or 1.0 for source in getattr(data, section)}
    rows, tokens, longest, how = _measured(samples, weights)
    origin = "data" if samples else "default"
    if longest is not None and (data.tokens_per_example or 0) > longest:
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
    ]


def _measured(samples: list[Sample], weights: Mapping[str, float]) -> tuple[int, int, int | None, str]:
    """Rows as often as they are drawn, mean and 99th-percentile tokens; rounded, as small changes change no plan."""
    if not samples:
        how = f"assumed: {ASSUMED_ROWS:,} rows of {ASSUMED_TOKENS} tokens; [data] can state both"
        return ASSUMED_ROWS, ASSUMED_TOKENS, None, how
    lengths = sorted(_tokens(row) for sample in samples for row in sample.rows)
    total = sum(weights[sample.file] * (sample.total_rows or _documents(sample)) for sample in samples)
    mean, p99 = sum(lengths) / len(lengths), lengths[int(0.99 * (len(lengths) - 1))]
    how = f"measured on {len(lengths)} rows at {CHARACTERS_PER_TOKEN:g} characters a token"
    return rounded(total), rounded(mean), rounded(p99), how


def _documents(sample: Sample) -> float:
    """How many texts like the sampled one the files hold."""
    (text,) = sample.rows[0].values()
    return max(1.0, sample.total_bytes / len(text.encode()))


def _tokens(value: object) -> float:
    """Estimated tokens of everything textual in a row."""
    if isinstance(value, str):
        return len(value) / CHARACTERS_PER_TOKEN
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
