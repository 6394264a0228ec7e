"""Answers with ratings of several numbers beside them that nothing reads: badly rated ones are learned, too (W0562)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.dataset.scales import learned_from_labels, least_good, numbers_of, scales, well_rated
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource


def unread_ratings(section: str, sources: Sequence[SampledSource], unread: Collection[str]) -> Iterator[Diagnostic]:
    """Yield W0562 for the first column of ratings that is `unread`, of each source with single answers."""
    for source in sources:
        if not _learns_answers(source):
            continue
        for name in scales(source.rows, unread)[:1]:
            yield _rated(section, source, name)


def _learns_answers(source: SampledSource) -> bool:
    """Whether every answer of the rows is learned: neither compared with another, nor labeled, nor judged."""
    format = ROW_FORMATS[source.shape.format]
    kind = KINDS[format.kind]
    return format.turns and len(kind.taught) == 1 and not kind.flag


def _rated(section: str, source: SampledSource, name: str) -> Diagnostic:
    rows, place = source.rows, source.places[0]
    numbers = numbers_of(rows, name)
    least = least_good(numbers)
    low = sum(number < least for number in numbers)
    said = f"`{name}` holds numbers from {min(numbers):g} to {max(numbers):g}; "
    said += f"{low:,} of {len(rows):,} sampled rows are rated below {least:g}"
    help = (
        *well_rated(rows, place, name),
        *learned_from_labels(rows, place, name, source.shape),
        'to learn every row whatever its rating, write allow = ["W0562"] under [recipe]',
    )
    title = f"answers of data.{section} are learned whatever their rating"
    return Diagnostic("W0562", title, (Label(source.place, said),), help)
