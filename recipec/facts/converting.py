"""Sampled rows as prepare_data.py will convert them; those that it would refuse are told all at once (E0304)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from recipec.axes import KINDS, ROW_FORMATS, methods_of
from recipec.dataset import BadContent, Converted, DataShape, RowFault, RowReading, Unanswered, converted
from recipec.diagnostics.model import Report
from recipec.facts.row_faults import unusable
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

KEEP, STRIP, OFF = "keep", "strip", "off"  # values of data.reasoning
WITHOUT = (STRIP, OFF)  # those that take thoughts out


def reading_of(loaded: LoadedRecipe, carries: Sequence[str]) -> RowReading:
    """How the messages of rows that carry this are read."""
    data = loaded.recipe.data
    anew = any(row.answers_anew for row in methods_of(loaded.recipe.goal.task))
    return RowReading(tuple(carries), frozenset(data.ignore or ()), data.reasoning in WITHOUT, anew)


def with_converted(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], report: Report
) -> list[SampledSource] | None:
    """The sources with what becomes of their rows; None with E0304 where preparation would refuse some."""
    found, own = [], Report()
    for source in sources:
        made, faults = _converted(loaded, source, source.shape)
        if source.rows and not (made or faults):
            faults = [RowFault(place, "the assistant says nothing in it") for place in source.places]
        if faults:
            own.add(unusable(section, source.place, faults, [source]))
        found.append(_answered(source, made))
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
    found = _answered(source, _converted(loaded, source, source.shape, kind)[0])
    return replace(found, shape=replace(found.shape, format=learned.format)) if _ends(found.shape, kind) else found


def _ends(shape: DataShape, learned: str) -> bool:
    """Whether the last answer of a conversation becomes a row of the kind `learned`, as single answers are."""
    return bool(learned) and KINDS[ROW_FORMATS[shape.format].kind].ends == learned


def _answered(source: SampledSource, made: Mapping[int, Converted]) -> SampledSource:
    """The source with what becomes of its rows, without those that preparation leaves out."""
    if source.sample is None or len(made) == len(source.rows):
        return replace(source, made=tuple(made.values()))
    rows, places = source.rows, source.places
    sample = replace(source.sample, rows=tuple(rows[n] for n in made), places=tuple(places[n] for n in made))
    left = tuple(place for number, place in enumerate(places) if number not in made)
    return replace(source, sample=sample, made=tuple(made.values()), unanswered=left)


def _converted(
    loaded: LoadedRecipe, source: SampledSource, shape: DataShape, learned: str = ""
) -> tuple[dict[int, Converted], list[RowFault]]:
    """What becomes of rows, by number, and why others are refused; unanswered ones are in neither."""
    reading, made, faults = reading_of(loaded, shape.carries), {}, []
    ends = _ends(shape, learned)
    for number, (place, row) in enumerate(zip(source.places, source.rows, strict=True)):
        try:
            made[number] = converted(row, shape, reading, ends=ends)
        except Unanswered:
            continue
        except BadContent as error:
            faults.append(RowFault(place, str(error)))
    return made, faults
