"""Whether the sampled rows have what the recipe splits them by, and whether that can be split."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import reduce
from math import isfinite
from typing import Any
from unicodedata import normalize

from recipec.dataset import RowFault, jq
from recipec.dataset.commands import documents, file_of, path_of
from recipec.dataset.contents import is_blank
from recipec.dataset.files import TEXT_ENDINGS
from recipec.dataset.formats import MOST_NAMES
from recipec.dataset.values import ways_of_gaps, ways_of_own_groups, ways_of_times, ways_of_units
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.row_faults import unusable
from recipec.facts.sources import SampledSource, all_read, places_of, rows_of, states_counts
from recipec.recipe import LoadedRecipe

OWN_CLASSES, FEWEST_ROWS = 0.95, 20  # as many rows with a value of their own, of so many, have no classes

# What a row of a text file can be split by: the expression for it, and what that is.
_OF_FILES = {
    "group": ("name", "the name of its file"),
    "time": ("os.path.getmtime(name)", "the time at which its file was last changed"),
    "stratify": ('"document"', 'the class "document"'),
}
_TEXT = "text"  # by which the text of a file is read
_AS_ROWS = {"group": "file", "time": "changed", "stratify": "kind"}  # columns to split by, beside that
_NO_TIME = "neither a number nor a date as in 2026-01-31"
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_DATE = re.compile(r"(\d{4})-(\d\d?)(?:-(\d\d?))?([T ].*)?")  # whose parts may lack zeros, or the day
_WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0")  # a whole number as a table with gaps writes it


def named_columns(loaded: LoadedRecipe) -> list[str]:
    """The columns that the recipe names beside those of the format: to split rows by, and to order them by."""
    split, order = (loaded.value(section, key) or {} for section, key in (("data", "split"), ("train", "curriculum")))
    return [*split.values(), *(name for key, name in order.items() if key == "column")]


def against_split(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield a column that a source lacks and values that are no classes (E0401), and rows without a value (E0304)."""
    for key, column in (loaded.value("data", "split") or {}).items():
        files = [source for source in sources if _of_texts(source)]
        for source in files:
            yield _no_columns(loaded, section, key, column, source)
        sampled = [source for source in sources if source.rows and source not in files]
        lacking = [source for source in sampled if not any(column in row for row in source.rows)]
        for source in lacking:
            yield _no_column(loaded, section, key, column, source)
        lacking += files
        for source in (source for source in sampled if source not in lacking):
            if faults := _faults(key, column, source):
                yield unusable(section, source.place, faults, len(source.rows))
        if key == "time":
            yield from _mixed_times(section, column, sources)
        if key == "stratify" and not lacking:
            yield from _no_classes(loaded, section, column, list(sources))
        if key == "group" and not lacking and all_read(sources) and not states_counts(loaded, sources):
            yield from _one_group(loaded, section, column, list(sources))


def _no_column(loaded: LoadedRecipe, section: str, key: str, column: str, source: SampledSource) -> Diagnostic:
    names = list(source.rows[0])[:MOST_NAMES]
    labels = (
        Label(loaded.place("data", "split", key), f"no sampled row of {source.name} has it"),
        Label(source.place, f"the rows have {', '.join(f'`{name}`' for name in names)}"),
    )
    title = f"`data.split.{key}` names the column `{column}`, which {source.name} of data.{section} does not have"
    help = ("use a column of the rows, or add the column to them", *_out_of_objects(column, key, source))
    return Diagnostic("E0401", title, labels, help)


def _of_texts(source: SampledSource) -> bool:
    """Whether the files of a source hold plain text, as their name or all files that a glob found say."""
    pattern, files = source.given.path or "", {file_of(place) for place in source.places}
    return pattern.endswith(TEXT_ENDINGS) or (bool(files) and all(file.endswith(TEXT_ENDINGS) for file in files))


def _no_columns(loaded: LoadedRecipe, section: str, key: str, column: str, source: SampledSource) -> Diagnostic:
    """Text files, of which each is one row: also `text` is no column to split them by, for each has its own."""
    labels = (
        Label(loaded.place("data", "split", key), "names a column"),
        Label(source.place, "each file is one row, which holds its text alone"),
    )
    value, what = _OF_FILES[key]
    own = _AS_ROWS[key] if column == _TEXT else column
    renamed = f', and write `{key} = "{own}"`' * (own != column)
    made = documents(source.given.path or "", own, value)
    help = (f"write the files as rows, each with {what} as `{own}`{renamed}: {made}",)
    help += (f"or remove `{key}`: rows are then drawn at random",)
    title = f"`data.split.{key}` splits text files of data.{section}, which have no columns"
    return Diagnostic("E0401", title, labels, help)


def _out_of_objects(column: str, key: str, source: SampledSource) -> Iterator[str]:
    """The command that makes a column of what stands in an object, where the name is a path to it."""
    names = column.split(".")
    held = reduce(lambda value, name: value.get(name) if isinstance(value, dict) else None, names, source.rows[0])
    path, last = "".join(map(path_of, names)), names[-1]
    if len(names) > 1 and held is not None and last not in source.rows[0]:
        command = jq(f"{path_of(last)} = {path}", source.places[0])
        yield f'`{column}` stands in an object: rewrite the rows, {command}, and write `{key} = "{last}"`'


def _faults(key: str, column: str, source: SampledSource) -> list[RowFault]:
    """The rows without a value to split by, as prepare_data.py would refuse them, and what to write."""
    placed = list(zip(source.places, source.rows, strict=True))
    if key == "time":
        found = {
            place: f"`{column}` holds {json.dumps(row.get(column), default=str):.40}, {_NO_TIME}"
            for place, row in placed
            if not _is_time(row.get(column))
        }
        help = tuple(ways_of_times(source.rows, next(iter(found)), column)) if found else ()
    else:
        found = {
            place: f"`{column}` is empty, and the rows are split by it"
            for place, row in placed
            if not as_text(row.get(column))
        }
        help = tuple(ways_of_gaps(next(iter(found)), column)) if found else ()
        if found and key == "group" and column not in _learned(source):
            help += tuple(ways_of_own_groups(next(iter(found)), column))
    empty = {place for place, row in placed if is_blank(row.get(column))}
    lacks = dict.fromkeys(empty, f"no `{column}`")
    return [RowFault(place, said, help=help, lacks=lacks.get(place, "")) for place, said in found.items()]


def _learned(source: SampledSource) -> Collection[str]:
    """The columns of the format: what is written into one of them is trained on."""
    return source.shape.columns.values() if source.shape else ()


def _mixed_times(section: str, column: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0304 for numbers beside dates, dates beside numbers, or several units: none says what is newer."""
    times = [(source, *placed) for source in sources for placed in zip(source.places, source.rows, strict=True)]
    times = [(source, place, row[column]) for source, place, row in times if _is_time(row.get(column))]
    first = next(((place, value) for _, place, value in times), ("", None))
    others = [(source, place, value) for source, place, value in times if _is_date(value) != _is_date(first[1])]
    if others:
        beside = f"and {first[1]} in {first[0]}: dates and numbers cannot be compared"
        way = ("write all of them as dates as in 2026-01-31, or all as numbers",)
        faults = [RowFault(place, f"`{column}` holds {value}, {beside}", help=way) for _, place, value in others]
        yield unusable(section, others[0][0].place, faults, len(rows_of(sources)))
    elif first[0] and not _is_date(first[1]):
        yield from _mixed_units(section, column, times, len(rows_of(sources)))


def _mixed_units(
    section: str, column: str, times: Sequence[tuple[SampledSource, str, Any]], rows: int
) -> Iterator[Diagnostic]:
    """Yield E0304 for numbers of two units since 1970: each of the larger numbers would be newer than all others."""
    counted = [(source, place, value, unit) for source, place, value in times if (unit := unit_of(float(value)))]
    others = [one for one in counted if one[3] != counted[0][3]]
    if others:
        _, beside, number, unit = counted[0]
        way = tuple(ways_of_units([place for _, place, _, unit in counted if unit != "seconds"], column))
        faults = [
            RowFault(place, f"`{column}` holds {value}, {other} since 1970, and {number} in {beside}, {unit}", help=way)
            for _, place, value, other in others
        ]
        yield unusable(section, others[0][0].place, faults, rows)


def unit_of(time: float) -> str:
    """What a number counts since 1970, if it is a time between 1973 and 2128 in that unit; "" for other numbers."""
    return next((unit for unit, size in _UNITS.items() if 1e8 <= time / size < 5e9), "")


def _is_date(value: Any) -> bool:
    """Whether a time is written as a date, and not as a number."""
    return isinstance(value, date) or (isinstance(value, str) and not value.replace(".", "", 1).isdecimal())


def _is_time(value: Any) -> bool:
    try:
        if isinstance(value, str) and _is_date(value):
            return bool(date_of(value))
        return isinstance(value, date) or (not isinstance(value, bool) and isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False


def date_of(text: str) -> datetime:
    """A date as in 2026-01-31, 2026-1-31 or 2026-01, with or without a time, as prepare_data.py reads it."""
    text = text.strip().removesuffix("UTC").rstrip()
    if found := _DATE.fullmatch(text):
        year, month, day, clock = found.groups()
        text = f"{year}-{month:0>2}-{day or '1':0>2}{clock or ''}"
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=time.tzinfo or UTC)


def as_text(value: Any) -> str:
    """What rows are kept together by, as prepare_data.py compares it: 3, 3.0 and "3 " are one value; "" of none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    text = "" if value is None else normalize("NFC", text).strip()
    return text.removesuffix(".0") if _WHOLE.fullmatch(text) else text


def _one_group(loaded: LoadedRecipe, section: str, column: str, sources: list[SampledSource]) -> Iterator[Diagnostic]:
    """All rows of one group, of which a part is to be held out: groups stay together."""
    rows, draws = rows_of(sources), not all(loaded.is_set("data", part) for part in ("eval", "test"))
    if draws and len(rows) > 1 and len({as_text(row.get(column)) for row in rows}) == 1:
        shown = f"all {len(rows)} rows have {rows[0].get(column)!r:.40}"
        label = Label(loaded.place("data", "split", "group"), f"{shown}, so that none can be held out")
        help = ("name a column that tells rows apart, or remove `group`: rows are then drawn at random",)
        title = f"`data.split.group` names the column `{column}`, which has one value in data.{section}"
        yield Diagnostic("E0401", title, (label,), help)


def _no_classes(loaded: LoadedRecipe, section: str, column: str, sources: list[SampledSource]) -> Iterator[Diagnostic]:
    """Values of which nearly every row has one of its own: no class would give a row to another part."""
    rows = rows_of(sources)
    values = {as_text(row.get(column)) for row in rows}
    if len(rows) >= FEWEST_ROWS and len(values) >= OWN_CLASSES * len(rows):
        first, second = places_of(sources)[:2]
        shown = f"{rows[0].get(column)!r:.40} in {first}, {rows[1].get(column)!r:.40} in {second}"
        labels = (
            Label(loaded.place("data", "split", "stratify"), f"{len(values)} values in {len(rows)} sampled rows"),
            Label(loaded.place("data", section), shown),
        )
        title = f"`data.split.stratify` names the column `{column}`, which has a value of its own in nearly every row"
        help = ("name a column of few values, such as a topic, or remove `stratify`: rows are then drawn at random",)
        note = "of a class of one row, none goes to evaluation"
        yield Diagnostic("E0401", title, labels, help, (note,))
