"""What a recipe's data hold: the format, the columns, how many rows and how long they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recipec.dataset import DataShape, Sample, UnknownFormat, Unreadable, files_of, read_sample, recognise
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.fact import known, stated
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

CHARACTERS_PER_TOKEN = 4.0  # English text with a byte-pair vocabulary of 32k or more; counted exactly by prepare_data
ASSUMED_ROWS, ASSUMED_TOKENS = 10_000, 500  # data that cannot be looked at from here, such as a dataset on the hub


@dataclass(frozen=True, slots=True)
class DataFacts:
    """One section of the data ("train" or "preferences"), as a stage will use it."""

    shape: DataShape
    decisions: Mapping[str, Decision]


def data_facts(loaded: LoadedRecipe, section: str, report: Report) -> DataFacts | None:
    """Look at the sources of data.train or data.preferences; None with a diagnostic when they cannot be used."""
    looked = [_look(loaded, section, index, report) for index in range(len(getattr(loaded.recipe.data, section)))]
    if report.has_errors:
        return None
    samples = [sample for sample in looked if sample is not None]
    shape = _shape(loaded, section, samples, report)
    if shape is None:
        return None
    facts = [*_sizes(loaded, samples), known("data_format", shape.format, shape.evidence, origin="data")]
    return DataFacts(shape, {fact.id: fact for fact in facts})


def _look(loaded: LoadedRecipe, section: str, index: int, report: Report) -> Sample | None:
    """A sample of one source; None for a source that cannot be read here, or with a diagnostic."""
    source = getattr(loaded.recipe.data, section)[index]
    if source.hub is not None:
        return None
    files = files_of(source.path, loaded.folder)
    if not files:
        label = Label(loaded.place("data", section, index, part="value"), f"no such file in {loaded.folder}")
        report.add(Diagnostic("E0303", f"data file `{source.path}` does not exist", (label,)))
        return None
    try:
        return read_sample(files, source.path)
    except Unreadable as error:
        label = Label(loaded.place("data", section, index, part="value"), error.reason)
        report.add(Diagnostic("E0304", f"`{error.where}` cannot be used", (label,)))
        return None


def _shape(loaded: LoadedRecipe, section: str, samples: list[Sample], report: Report) -> DataShape | None:
    data = loaded.recipe.data
    asked = "preference" if section == "preferences" else data.format
    asked = None if asked == "auto" else asked
    rows = tuple(row for sample in samples for row in sample.rows)
    if not rows:
        return _unseen(loaded, section, asked, report)
    where = [f"{sample.file}:{line}" for sample in samples for line in sample.lines]
    try:
        return recognise(rows, asked, data.columns or {}, where)
    except UnknownFormat as error:
        label = Label(loaded.place("data", section, part="value"), str(error))
        report.add(Diagnostic("E0305", f"the format of data.{section} cannot be told", (label,)))
        return None


def _unseen(loaded: LoadedRecipe, section: str, asked: str | None, report: Report) -> DataShape | None:
    """Data that cannot be looked at must be described by the recipe; its columns then have their usual names."""
    if asked is None:
        label = Label(loaded.place("data", section, part="value"), "cannot be looked at from here")
        help = ('say what the rows hold: `format = "chat"` (and `columns` where the names differ)',)
        report.add(Diagnostic("E0305", f"the format of data.{section} cannot be told", (label,), help))
        return None
    return DataShape.described(asked, loaded.recipe.data.columns or {}, f"set in {loaded.where('data', 'format')}")


def _sizes(loaded: LoadedRecipe, samples: list[Sample]) -> list[Decision]:
    """Rows and tokens: stated in the recipe, else measured, else assumed."""
    data = loaded.recipe.data
    rows, tokens, longest, how = _measured(samples)
    return [
        stated(loaded, "examples", data.examples or rows, "data", "examples", absent=how, origin="data"),
        stated(
            loaded, "tokens_per_example", data.tokens_per_example or tokens, "data", "tokens_per_example", absent=how
        ),
        known("tokens_p99", longest, how, origin="data"),
    ]


def _measured(samples: list[Sample]) -> tuple[int, int, int | None, str]:
    """Rows, mean and 99th-percentile tokens, rounded so that small changes of the data do not change the plan."""
    if not samples:
        how = f"assumed: {ASSUMED_ROWS:,} rows of {ASSUMED_TOKENS} tokens; [data] can state both"
        return ASSUMED_ROWS, ASSUMED_TOKENS, None, how
    lengths = sorted(_tokens(row) for sample in samples for row in sample.rows)
    total = sum(sample.total_rows or 1 for sample in samples)
    mean, p99 = sum(lengths) / len(lengths), lengths[int(0.99 * (len(lengths) - 1))]
    how = f"measured on {len(lengths)} rows at {CHARACTERS_PER_TOKEN:g} characters a token"
    return rounded(total), rounded(mean), rounded(p99), how


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
