"""Sampled rows as prepare_data.py will convert them; those that it would refuse are told all at once (E0304)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from recipec.axes import KINDS, ROW_FORMATS, SECTIONS, methods_of
from recipec.dataset import (
    BadContent,
    Converted,
    DataShape,
    Incomplete,
    RowFault,
    RowReading,
    Unanswered,
    converted,
    rewriting,
)
from recipec.dataset.commands import one_at_a_time
from recipec.dataset.contents import lacking
from recipec.dataset.large_numbers import keeping_numbers
from recipec.dataset.questions import with_references
from recipec.diagnostics.model import Report
from recipec.facts.row_faults import unusable
from recipec.facts.sources import SKIP, SampledSource
from recipec.recipe import LoadedRecipe

KEEP, STRIP, OFF = "keep", "strip", "off"  # values of data.reasoning
WITHOUT = (STRIP, OFF)  # those that take thoughts out


def reading_of(loaded: LoadedRecipe, carries: Sequence[str]) -> RowReading:
    """How the messages of rows that carry this are read."""
    data = loaded.recipe.data
    anew = any(row.answers_anew for row in methods_of(loaded.recipe.goal.task))
    left_out = frozenset(data.ignore or ())
    opening, skips = data.opening_answers or "", data.incomplete == SKIP
    thinks_not = data.reasoning in WITHOUT
    return RowReading(tuple(carries), left_out, thinks_not, anew, opening, skips, data.system or "")


def with_converted(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], report: Report
) -> list[SampledSource] | None:
    """The sources with what becomes of their rows; None with E0304 where preparation would refuse some."""
    found, own = [], Report()
    for source in sources:
        made, faults, lacks = _converted(loaded, source, source.shape)
        if source.rows and not (made or faults):
            faults = [RowFault(place, _why_none(lacks)) for place in source.places]
            faults[:1] = [replace(faults[0], help=() if lacks else tuple(_references(source)))]
        if faults:
            fault = unusable(section, source.place, faults, len(source.rows))
            ways = one_at_a_time(fault.help, rewriting(source.rows, source.places, source.shape))
            own.add(replace(fault, help=tuple(keeping_numbers(ways, source.rows))))
        found.append(_answered(source, made, lacks))
    for finding in own.diagnostics:
        report.add(finding)
    return None if own.has_errors else found


def faults_of(loaded: LoadedRecipe, source: SampledSource, shape: DataShape, learned: str = "") -> list[RowFault]:
    """The sampled rows that preparation would refuse, each with its first trouble.

    `learned`: the kind of the rows beside which these are held out.
    """
    return _converted(loaded, source, shape, learned)[1]


def as_learned(loaded: LoadedRecipe, source: SampledSource, learned: DataShape) -> SampledSource:
    """The source with what becomes of those of its rows that preparation takes beside rows that are learned."""
    kind = ROW_FORMATS[learned.format].kind
    made, _, lacks = _converted(loaded, source, source.shape, kind)
    found = _answered(source, made, lacks)
    return replace(found, shape=replace(found.shape, format=learned.format)) if _ends(found.shape, kind) else found


def _ends(shape: DataShape, learned: str) -> bool:
    """Whether the last answer of a conversation becomes a row of the kind `learned`, as single answers are."""
    return bool(learned) and KINDS[ROW_FORMATS[shape.format].kind].ends == learned


def _references(source: SampledSource) -> Iterator[str]:
    """What makes use of answers that stand beside conversations without one."""
    for column in source.shape.columns.values():
        yield from with_references(source.rows, source.places, column)


def _why_none(lacks: Mapping[int, str]) -> str:
    """Why preparation would leave out every sampled row."""
    if lacks:
        return f"it has {next(iter(lacks.values()))}, and every other sampled row is incomplete, too"
    return "the assistant says nothing in it"


def _answered(source: SampledSource, made: Mapping[int, Converted], lacks: Mapping[int, str]) -> SampledSource:
    """The source with what becomes of its rows, without those that preparation leaves out."""
    if source.sample is None or len(made) == len(source.rows):
        return replace(source, made=tuple(made.values()))
    rows, places = source.rows, source.places
    kept = {"rows": tuple(rows[n] for n in made), "places": tuple(places[n] for n in made)}
    counted = source.sample.counted and not (lacks and source.sample.total_rows > len(rows))
    sample = replace(source.sample, **kept, total_rows=_complete(source, len(lacks)), counted=counted)
    left = tuple(place for number, place in enumerate(places) if number not in made and number not in lacks)
    found = replace(source, sample=sample, made=tuple(made.values()), unanswered=left)
    return replace(found, incomplete=tuple(lacks.values()), read=tuple(places))


def _complete(source: SampledSource, lacks: int) -> int:
    """How many rows are left of a source of whose sampled rows so many are incomplete."""
    assert source.sample is not None
    total = min(source.sample.total_rows, source.given.take or source.sample.total_rows) if lacks else None
    return source.sample.total_rows if total is None else round(total * (1 - lacks / len(source.rows)))


def _split_by(loaded: LoadedRecipe, source: SampledSource) -> str:
    """The column by which rows to learn from are split, where some of them have it; "" for files that are held out."""
    columns = (loaded.value("data", "split") or {}).values() if source.part in SECTIONS else ()
    return next((name for name in columns if any(name in row for row in source.rows)), "")


def _converted(
    loaded: LoadedRecipe, source: SampledSource, shape: DataShape, learned: str = ""
) -> tuple[dict[int, Converted], list[RowFault], dict[int, str]]:
    """What becomes of rows, by number, why others are refused, and what others lack; unanswered ones are in none."""
    reading = replace(reading_of(loaded, shape.carries), split_by=_split_by(loaded, source))
    made, faults, lacks = {}, [], {}
    ends = _ends(shape, learned)
    for number, (place, row) in enumerate(zip(source.places, source.rows, strict=True)):
        try:
            made[number] = converted(row, shape, reading, ends=ends)
        except Unanswered:
            continue
        except Incomplete as error:
            lacks[number] = str(error)
        except BadContent as error:
            lost = lacking(row, ROW_FORMATS[shape.format], shape.columns)
            faults.append(RowFault(place, str(error), help=error.help, lacks=lost))
    return made, faults, lacks
