"""Rows that preparation leaves out: those that teach nothing, repeat another one exactly (W0553) or prefer nothing.

Where all rows were read, the plan counts none of them.
templates/data/convert.py.j2 finds the same among all rows: by what becomes of a row, and by what judges its answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.dataset import SAMPLE_ROWS
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.same_answers import preferring_nothing
from recipec.facts.sizes import rounded
from recipec.facts.sources import SampledSource, all_read, some_state_counts, states_counts
from recipec.facts.unanswered import teaching_nothing
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

# Recipec's choice: a few duplicates occur in most data, and rows for a first try are often one row several times.
MOST_UNTOLD = 0.1  # of the sampled rows
FEWEST_COUNTED = 10  # duplicates
_SIZES = ("examples", "data_rows", "source_rows")


def many_repeated(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0553 where more than a tenth of the sampled rows are exact duplicates of others."""
    found = [place for places in _repeated(sources) for place in places]
    sampled = sum(len(source.rows) for source in sources)
    if len(found) < FEWEST_COUNTED or len(found) <= MOST_UNTOLD * sampled:
        return
    title = f"{len(found)} of {sampled} sampled rows of data.{section} are exact duplicates of others"
    label = Label(loaded.place("data", section), f"the first is {found[0]}")
    help = (
        "remove them; a source that is to count more takes `weight`",
        'if they may be left out, write allow = ["W0553"] under [recipe]',
    )
    known = all_read(sources) or states_counts(loaded, sources)
    counts = "" if known else "; the plan counts them, as not all rows were read"
    note = f"prepare_data.py keeps one row of each, and counts the others as `duplicates`{counts}"
    yield Diagnostic("W0553", title, (label,), help, (note,))


def left_out(sources: Sequence[SampledSource]) -> list[set[str]]:
    """The places of rows of each source that teach or prefer nothing, repeat others or contradict them."""
    found = zip(map(teaching_nothing, sources), _repeated(sources), preferring_nothing(sources), strict=True)
    return [{*silent, *repeated, *unclear} for silent, repeated, unclear in found]


def rows_kept(sources: Sequence[SampledSource]) -> list[int] | None:
    """The rows of each source that preparation keeps; None where not all rows were read."""
    if not all_read(sources):
        return None
    return [len(source.rows) - len(lost) for source, lost in zip(sources, left_out(sources), strict=True)]


def without_left_out(sizes: Sequence[Decision], sources: Sequence[SampledSource]) -> list[Decision]:
    """The sizes of the data without rows that preparation will leave out, where all rows were read."""
    unanswered, left = sum(len(source.unanswered) for source in sources), rows_kept(sources)
    lost = unanswered + sum(map(len, left_out(sources)))
    if left is None or lost < FEWEST_COUNTED or some_state_counts(sources):
        return [*sizes]
    rows = rounded(sum(source.weight * count for source, count in zip(sources, left, strict=True)))
    values = {"examples": rows, "data_rows": rows, "source_rows": rounded(sum(left))}
    repeated, read = sum(map(len, _repeated(sources))), sum(left) + lost
    silent = unanswered + sum(len(teaching_nothing(source)) for source in sources)
    kinds = {"have no answer or ask nothing": silent, "are exact duplicates": repeated}
    kinds["prefer nothing or contradict others"] = lost - silent - repeated
    named = " and ".join(f"{about(count, read)} {what}" for what, count in kinds.items() if count)
    told = f"of {about(read, read)} rows, {named}: prepare_data.py leaves them out"
    return [_less(size, values[size.id], told) if size.id in _SIZES else size for size in sizes]


def about(count: int, rows: int) -> str:
    """A count; of many rows rounded, so that a row more changes no text."""
    return f"{count:,}" if rows <= SAMPLE_ROWS else f"about {rounded(count):,}"


def _less(size: Decision, rows: int, told: str) -> Decision:
    return replace(size, value=rows, because=f"{size.because}; {told}") if size.origin == "data" else size


def _repeated(sources: Sequence[SampledSource]) -> list[list[str]]:
    """The places of the rows of each source that repeat another one; of several, the one that weighs most stays."""
    seen: set[str] = set()
    found: list[list[str]] = [[] for _ in sources]
    for number in sorted(range(len(sources)), key=lambda number: -sources[number].weight):
        for place, content in _contents(sources[number]):
            if content in seen:
                found[number].append(place)
            seen.add(content)
    return found


def _contents(source: SampledSource) -> Iterator[tuple[str, str]]:
    """The place of each row that teaches something, and all that prepare_data.py tells it from others by."""
    silent = teaching_nothing(source)
    for place, row, made in zip(source.places, source.rows, source.made, strict=True):
        if place not in silent:
            judged_by = [row.get(name) for name in source.shape.handed]
            yield place, json.dumps([made, judged_by], sort_keys=True, default=str)
