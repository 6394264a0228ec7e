"""Ratings of answers in several numbers, such as 1 to 5: which rows are good is the user's to decide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recipec.axes.row_formats import RATING_WORDS
from recipec.dataset.backwards import says_bad
from recipec.dataset.column_names import speaks
from recipec.dataset.commands import file_of, python_command, rows_as_json, rows_command
from recipec.dataset.contents import NOTHING, Row
from recipec.dataset.formats import DataShape
from recipec.dataset.ratings import goals_with_flag

_RATE = (*RATING_WORDS, "csat", "quality", "helpfulness")
_MOST = 11  # numbers of a scale, as 0 to 10 has them: a column of more counts or measures something


def scales(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that rate with a few numbers, by their names and by what they hold."""
    return [name for name in names if speaks(name, _RATE) and not says_bad(name) and numbers_of(rows, name)]


def numbers_of(rows: Sequence[Row], name: str) -> list[float]:
    """The numbers of a scale in a column, also where they are texts, as CSV has them; [] where it holds no scale."""
    said = [row[name] for row in rows if row.get(name) not in NOTHING]
    numbers = [number for value in said if (number := _number(value)) is not None]
    return numbers if len(numbers) == len(said) and 2 < len({*numbers}) <= _MOST else []


def _number(value: Any) -> float | None:
    if type(value) not in (int, float, str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def least_good(numbers: Sequence[float]) -> float:
    """The least number above the middle of a scale: a beginning, as the scale says nothing of it."""
    return min(number for number in numbers if 2 * number > min(numbers) + max(numbers))


def well_rated(rows: Sequence[Row], place: str, name: str) -> Iterator[str]:
    """Yield the command that keeps the rows with a good rating."""
    least, column = least_good(numbers_of(rows, name)), json.dumps(name, ensure_ascii=False)
    each = f"for row in rows if {_is_rated(column)} and float(row[{column}]) >= {least:g}"
    if command := rows_command("row", each, place):
        yield f"to learn from the rows rated {least:g} or more alone (or from another number on): {command}"


def labeled_by(rows: Sequence[Row], place: str, name: str) -> str:
    """The command that writes a label of each rating, and leaves out rows without one."""
    least, column = least_good(numbers_of(rows, name)), json.dumps(name, ensure_ascii=False)
    made, each = f'row | {{"label": float(row[{column}]) >= {least:g}}}', f"for row in rows if {_is_rated(column)}"
    return rows_as_json(made, place, each) if file_of(place).endswith(".csv") else python_command(made, each, place)


def learned_from_labels(rows: Sequence[Row], place: str, name: str, shape: DataShape) -> Iterator[str]:
    """Yield how good and bad answers are learned, where rows of the shape are those of a format with a label."""
    command = labeled_by(rows, place, name)
    for goal, columns in goals_with_flag(shape) if command else ():
        yield f"to learn which answers are good: {command}, then {goal}, and under [data] the new file as {columns}"


def _is_rated(column: str) -> str:
    return f'row.get({column}) not in (None, "")'
