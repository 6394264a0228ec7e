"""Answers that are each rated alone, where a stage compares two answers to one prompt: what learns from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import PREFERENCE, RATING_WORDS, UNPAIRED_PREFERENCE
from recipec.dataset import DataShape, Row, learning_from, ratings
from recipec.dataset.column_names import speaks
from recipec.dataset.contents import names_in
from recipec.dataset.ratings import learning_from_labels, without_one
from recipec.dataset.scales import learned_from_labels, scales

_PAIRS = (
    "a pair needs two answers to one prompt, of which one is rated better: write it as `chosen` and the other as "
    f"`rejected` (`recipec explain {PREFERENCE.name}`)"
)


def learned_by_rating(shape: DataShape, rows: Sequence[Row], place: str, taken: Collection[str]) -> Iterator[str]:
    """Yield how rows with a rating beside each answer are learned by it; nothing of rows without a rating."""
    if not ROW_FORMATS[shape.format].turns or not {PREFERENCE.name, UNPAIRED_PREFERENCE.name} & {*taken}:
        return
    names = [name for name in names_in(rows) if name not in shape.columns.values()]
    flags, numbers = ratings(rows, names), scales(rows, names)
    lines = [*learning_from_labels(shape, rows, place, names), *learning_from(shape, flags, without_one(rows, flags))]
    lines = lines or [line for name in numbers[:1] for line in learned_from_labels(rows, place, name, shape)]
    if lines or flags or numbers or any(speaks(name, RATING_WORDS) for name in names):
        yield from [_PAIRS] * (PREFERENCE.name in taken)
        yield from lines[:1]
