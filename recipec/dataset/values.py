"""What to write where a column that rows are split or ordered by holds no time, nothing, or no number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from recipec.dataset.commands import file_of, one_at_a_time, rows_command
from recipec.dataset.contents import NOTHING, Row

# How people write dates, without a time of the day and with one.
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%Y.%m.%d", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y")
_DAYS += ("%b %Y", "%B %Y", "%m/%Y", "%m.%Y", "%Y/%m")  # a month is its first day
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
# Quarters and weeks of a year: how people write them, and what of a `text` is a date that is read.
_YEAR = '{re.search("[0-9]{4}", text)[0]}'
_QUARTER, _WEEK = (
    '{3 * int(re.search("(?i)Q([1-4])", text)[1]) - 2:02}',
    '{re.search("(?i)W[a-z]* ?([0-9]+)", text)[1]:0>2}',
)
_PERIODS = {
    "quarters": (r"Q[1-4][ ,/-]*\d{4}|\d{4}[ ,/-]*Q[1-4]", f"{_YEAR}-{_QUARTER}"),
    "ISO weeks": (r"(W|CW|KW|week) ?\d\d?[ ,/-]+\d{4}|\d{4}[ ,/-]*(W|CW|KW|week) ?\d\d?", f"{_YEAR}-W{_WEEK}"),
}
# Words of how hard something is, in their order.
_LADDERS = (("very easy", "easy", "medium", "hard", "very hard"), ("beginner", "intermediate", "advanced", "expert"))
_LADDERS += (("easy", "normal", "hard"), ("easy", "moderate", "difficult"), ("low", "medium", "high"))
_COMMAS = {"thousands separators": "", "decimal commas": "."}  # what commas may be, and how Python writes that
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_MOST_WORDS = 12  # that a line lists


def ways_of_times(rows: Sequence[Row], place: str, column: str) -> Iterator[str]:
    """Yield the command for each way in which all dates of a column can be read, or one for rows without a date."""
    said = [row[column] for row in rows if row.get(column) not in NOTHING]
    yield from one_at_a_time(_dates(said, place, column), _without(place, column) if len(said) < len(rows) else ())


def _dates(said: Sequence[Any], place: str, column: str) -> Iterator[str]:
    periods = [*_of_periods(said, place, column)]
    yield from periods
    read = [(format, time) for format in _formats() if (time := _first(said, format))]
    for format, time in read:
        name = json.dumps(column, ensure_ascii=False)
        parsed = f"datetime.strptime(row[{name}], {json.dumps(format)}).isoformat()"
        made = f"row | {{{name}: row.get({name}) and {parsed}}}"
        command = rows_command(made, "for row in rows", place, "from datetime import datetime; ")
        which = f"if {said[0]!r} is {time:%Y-%m-%d}, rewrite" if len(read) > 1 else "rewrite"
        yield f"{which} the dates: {command}"
    if said and not read and not periods:
        yield "write every time as a number, or as a date as in 2026-01-31 or 2026-01"


def _of_periods(said: Sequence[Any], place: str, column: str) -> Iterator[str]:
    """Yield the command that makes dates of quarters, each by its first month, or of weeks."""
    name = json.dumps(column, ensure_ascii=False)
    for what, (pattern, date) in _PERIODS.items():
        if said and all(isinstance(text, str) and re.fullmatch(pattern, text, re.IGNORECASE) for text in said):
            made = f"row | {{{name}: text and f'{date}' for text in [row.get({name})]}}"
            if command := rows_command(made, "for row in rows", place):
                yield f"rewrite the {what} as dates: {command}"


def _formats() -> Iterator[str]:
    return (day + clock for day in _DAYS for clock in _CLOCKS)


def _first(said: Sequence[Any], format: str) -> datetime | None:
    """The first of the times, where all are written so; else None."""
    try:
        times = [datetime.strptime(text, format) for text in said]
    except (TypeError, ValueError):
        return None
    return times[0] if times else None


def ways_of_units(places: Sequence[str], column: str) -> Iterator[str]:
    """Yield the command, for each file, that makes seconds since 1970 of milliseconds, micro- and nanoseconds."""
    name = json.dumps(column, ensure_ascii=False)
    digits = f"len(str(int(float(row[{name}]))))"  # 9 or 10 of seconds, three more for each smaller unit
    made = f"row | {{{name}: float(row[{name}]) / 1000 ** max(0, ({digits} - 8) // 3)}}"
    for place in {file_of(place): place for place in reversed(places)}.values():
        if command := rows_command(made, "for row in rows", place):
            yield f"rewrite them in seconds: {command}"


def ways_of_gaps(place: str, column: str) -> Iterator[str]:
    """Yield the command that leaves rows without a value out."""
    yield from _without(place, column)


def ways_of_own_groups(place: str, column: str) -> Iterator[str]:
    """Yield the command that makes a group of its own of each row without a value."""
    name = json.dumps(column, ensure_ascii=False)
    own = f'row | {{{name}: row[{name}] if {_given(column)} else f"row {{number}}"}}'
    if command := rows_command(own, "for number, row in enumerate(rows, 1)", place):
        yield f"to give each of them a value of its own: {command}"


def _without(place: str, column: str) -> Iterator[str]:
    if command := rows_command("row", f"for row in rows if {_given(column)}", place):
        yield f"to leave rows without a value in `{column}` out: {command}"


def _given(column: str) -> str:
    """Whether a row has a value, for Python; NaN is none, and neither are spaces alone."""
    name = json.dumps(column, ensure_ascii=False)
    return f"row.get({name}) is not None and str(row[{name}]).strip() and row[{name}] == row[{name}]"


def ways_of_numbers(rows: Sequence[Row], place: str, column: str) -> Iterator[str]:
    """Yield the command that makes numbers of decimal commas, or of a few words in the order of how hard they are.

    Rows without a value are left out by another one, once all others hold numbers.
    """
    said = [row[column] for row in rows if row.get(column) not in NOTHING]
    numbers = _as_numbers(said, place, column)
    yield from one_at_a_time(numbers, _without(place, column) if len(said) < len(rows) else ())


def _as_numbers(said: Sequence[Any], place: str, column: str) -> Iterator[str]:
    name = json.dumps(column, ensure_ascii=False)
    if commas := [str(value) for value in said if "," in str(value)]:
        yield from _of_commas(said, commas, column, place)
    elif all(isinstance(value, str) for value in said) and not any(map(_is_number, said)):
        yield from _of_words({*said}, name, place)


def _of_commas(said: Sequence[Any], commas: Sequence[str], column: str, place: str) -> Iterator[str]:
    """Yield the command for each way in which all values are numbers, of which some have commas."""
    name = json.dumps(column, ensure_ascii=False)
    marks = _COMMAS if all(map(_THOUSANDS.fullmatch, commas)) else {"decimal commas": "."}
    read = {what: mark for what, mark in marks.items() if all(_is_number(value, mark) for value in said)}
    for what, mark in read.items():
        number = f'float(str(row[{name}]).replace(",", {json.dumps(mark)}))'
        which = f"if {commas[0]!r} is {commas[0].replace(',', mark)}, rewrite" if len(read) > 1 else "rewrite"
        yield from _numbers(f"{which} {what}", f"row | {{{name}: {number} if {_given(column)} else None}}", place)


def _of_words(words: set[str], name: str, place: str) -> Iterator[str]:
    if len(words) <= _MOST_WORDS:
        ranked = _ranked([*words])
        ranks = json.dumps({word: rank for rank, word in enumerate(ranked or sorted(words), 1)}, ensure_ascii=False)
        order = "write numbers" if ranked else "write numbers, in the order from easy to hard that you mean"
        yield from _numbers(order, f"row | {{{name}: {ranks}.get(row.get({name}), row.get({name}))}}", place)


def _is_number(value: Any, mark: str = ".") -> bool:
    """Whether a value is a number once its commas are written as the mark."""
    try:
        return not isinstance(value, bool) and float(str(value).replace(",", mark)) is not None
    except ValueError:
        return False


def _ranked(words: list[str]) -> list[str]:
    """The words from easy to hard, where they are usual ones; else none."""
    for ladder in _LADDERS:
        if {word.lower() for word in words} <= {*ladder}:
            return sorted(words, key=lambda word: ladder.index(word.lower()))
    return []


def _numbers(what: str, made: str, place: str) -> Iterator[str]:
    if command := rows_command(made, "for row in rows", place):
        yield f"{what}: {command}"
