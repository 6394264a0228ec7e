"""Answers with ratings beside them that their format does not read: which columns rate, and what learns from them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from recipec.axes import METHODS, ROW_FORMATS, RowFormat
from recipec.axes.row_formats import DIGITS, FLAG_TEXTS, FLAGS, SPEAK_FOR, WORDS
from recipec.dataset.backwards import NAMED_LABEL, as_labels, forward, other_half
from recipec.dataset.contents import Row, flag_of, flag_text, rated_columns
from recipec.dataset.formats import DataShape

# Texts that rate wherever they stand. "Yes", "true" and 1 rate only in a column whose name says so.
_RATE = {
    text for name, pair in FLAG_TEXTS.items() if name not in (WORDS, DIGITS, "1.0 or 0.0", "yes or no") for text in pair
}


def ratings(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that call some answers good and others bad, by their names or by what they hold."""
    rated = rated_columns(rows, forward(rows, names))
    return [name for name in rated if _rates(name, [row.get(name) for row in rows])]


def _rates(name: str, values: Sequence[object]) -> bool:
    said = {flag_text(value) for value in values if flag_of(value) is not None}
    named = any(word in name.lower() for word in SPEAK_FOR["label"])
    return len(said) > 1 and (named or said <= _RATE)


def learning_from(shape: DataShape, names: Sequence[str], unrated: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines that have rows of the shape learned with their ratings, for the first of these columns.

    Of the columns that are `unrated` in some rows, these rows are left out.
    """
    for format, flag in _flagged(shape) if names else ():
        columns = _renamed(format, {**shape.columns, flag: names[0]})
        columns += ', and `incomplete = "skip"` for rows without one' * (names[0] in unrated)
        yield f"to learn from the ratings in `{names[0]}`: {_goal(format)}, and under [data] the rows as {columns}"


def goals_with_flag(shape: DataShape) -> Iterator[tuple[str, str]]:
    """The keys with which rows of the shape are learned with a flag, and how [data] names them, once they have one."""
    for format, flag in _flagged(shape):
        yield _goal(format), _renamed(format, {**shape.columns, flag: flag})


def without_one(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns of ratings that say nothing in some rows."""
    return [name for name in names if any(flag_of(row.get(name)) is None for row in rows)]


def learning_from_labels(shape: DataShape, rows: Sequence[Row], place: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the same where the ratings are true of bad answers: the command that makes labels of them comes first.

    Where the rows are learned with a label that is one of two ratings, this is a label of both.
    """
    label = next((shape.columns[role.name] for role in ROW_FORMATS[shape.format].roles if role.holds == FLAGS), "")
    for line in as_labels(rows, place, [name for name in names if label and other_half(name, rows) == label]):
        yield line + NAMED_LABEL
    beside = [name for name in names if name not in shape.columns.values()]
    for format, flag in _flagged(shape):
        columns = _renamed(format, {**shape.columns, flag: flag})
        for line in as_labels(rows, place, beside):
            yield f"to learn from ratings: {line}, then {_goal(format)}, and under [data] the new file as {columns}"


def _flagged(shape: DataShape) -> Iterator[tuple[RowFormat, str]]:
    """The formats that rows of the shape would have with a flag, each with the role of the flag."""
    for format in ROW_FORMATS.values():
        flag = next((role.name for role in format.required if role.holds == FLAGS), "")
        others = {role.name for role in format.required} - {flag}
        if flag and flag not in shape.columns and others <= shape.columns.keys():
            yield format, flag


def _goal(format: RowFormat) -> str:
    method = METHODS[format.usual]
    return f'`task = "{method.task}"` under [goal], `method = "{method.name}"` under [alignment]'


def _renamed(format: RowFormat, columns: Mapping[str, str]) -> str:
    """The key that names the rows, and the columns with other names than the usual ones."""
    renamed = {role.name: columns[role.name] for role in format.required if columns[role.name] not in role.aliases}
    pairs = ", ".join(f"{role} = {json.dumps(column, ensure_ascii=False)}" for role, column in renamed.items())
    return f"`{METHODS[format.usual].section}`" + f", with `columns = {{ {pairs} }}`" * bool(pairs)
