"""Columns that stand in objects: recipec reads those at the top level of a row, and a command brings others there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from recipec.axes import RowFormat
from recipec.dataset.commands import AT_THE_TOP, python_command
from recipec.dataset.contents import Row
from recipec.dataset.faults import UnknownFormat
from recipec.dataset.formats import BadRows, recognise
from recipec.dataset.side_by_side import questions_and_answers
from recipec.dataset.suggested import suggested_columns

_Path = tuple[str, ...]
_DEEPEST = 3  # objects within each other: recipec's choice


def columns_within(rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat]) -> Iterator[str]:
    """Yield the command for the first object of which a format reads the columns, and the line that names them."""
    for path in _objects(rows):
        lifted = [_lifted(row, path) for row in rows]
        read = _is_read(lifted, places, formats)
        told = [] if read else [*_named(lifted, formats)]
        if read or told:
            held = "".join(f"[{json.dumps(name, ensure_ascii=False)}]" for name in path)
            first = json.dumps(path[0], ensure_ascii=False)
            made = f"{{key: held for key, held in row.items() if key != {first}}} | row{held}"
            if command := python_command(made, "for row in rows", places[0]):
                yield f"{AT_THE_TOP}: bring those of `{'.'.join(path)}` there: {command}"
                yield from (f"then {line}" for line in told)
            return


def _objects(rows: Sequence[Row], within: _Path = ()) -> Iterator[_Path]:
    """The paths of the objects that every row has, outer ones first."""
    found = [
        (*within, name) for name in rows[0] if name.strip() and all(isinstance(row.get(name), Mapping) for row in rows)
    ]
    yield from found
    for path in found if len(within) + 1 < _DEEPEST else ():
        yield from _objects([row[path[-1]] for row in rows], path)


def _lifted(row: Row, path: _Path) -> Row:
    held = row
    for name in path:
        held = held[name]
    return {key: value for key, value in row.items() if key != path[0]} | held


def _is_read(rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat]) -> bool:
    """Whether rows are of one of the formats, though some may be faulty."""
    try:
        recognise(tuple(rows), [format.name for format in formats], {}, [*places])
    except BadRows:
        return True
    except UnknownFormat:
        return False
    return True


def _named(rows: Sequence[Row], formats: Sequence[RowFormat]) -> Iterator[str]:
    """The lines that name columns of other names for a format, where names speak for one."""
    yield from [*suggested_columns(rows, formats, {}, unread=False)] or questions_and_answers(rows, formats)
