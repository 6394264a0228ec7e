"""Answers with ratings beside them that their format does not read: which columns rate, and what learns from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from recipec.axes import METHODS, ROW_FORMATS, RowFormat
from recipec.axes.row_formats import DIGITS, FLAG_TEXTS, FLAGS, SPEAK_FOR, WORDS
from recipec.dataset.contents import Row, flag_of, flag_text, rated_columns
from recipec.dataset.formats import DataShape

# Texts that rate wherever they stand. "Yes", "true" and 1 rate only in a column whose name says so.
_RATE = {
    text for name, pair in FLAG_TEXTS.items() if name not in (WORDS, DIGITS, "1.0 or 0.0", "yes or no") for text in pair
}


def ratings(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that call some answers good and others bad, by their names or by what they hold."""
    return [name for name in rated_columns(rows, names) if _rates(name, [row.get(name) for row in rows])]


def _rates(name: str, values: Sequence[object]) -> bool:
    said = {flag_text(value) for value in values if flag_of(value) is not None}
    named = any(word in name.lower() for word in SPEAK_FOR["label"])
    return len(said) > 1 and (named or said <= _RATE)


def learning_from(shape: DataShape, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines that have rows of the shape learned with their ratings, for the first of these columns."""
    for format in ROW_FORMATS.values():
        flag = next((role.name for role in format.required if role.holds == FLAGS), "")
        others = {role.name for role in format.required} - {flag}
        if names and flag and flag not in shape.columns and others <= shape.columns.keys():
            yield _lines(shape, format, flag, names[0])


def _lines(shape: DataShape, format: RowFormat, flag: str, name: str) -> str:
    method, columns = METHODS[format.usual], {**shape.columns, flag: name}
    renamed = {role.name: columns[role.name] for role in format.required if columns[role.name] not in role.aliases}
    pairs = ", ".join(f"{role} = {json.dumps(column, ensure_ascii=False)}" for role, column in renamed.items())
    goal = f'`task = "{method.task}"` under [goal], `method = "{method.name}"` under [alignment]'
    rows = f"under [data] the rows as `{method.section}`, with `columns = {{ {pairs} }}`"
    return f"to learn from the ratings in `{name}`: {goal}, and {rows}"
