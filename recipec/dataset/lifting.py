"""Columns that stand in objects: recipec reads those at the top level of a row, and a command brings others there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from recipec.axes import ROW_FORMATS, RowFormat
from recipec.axes.row_formats import MEANT
from recipec.dataset.commands import AT_THE_TOP, python_command
from recipec.dataset.contents import Row
from recipec.dataset.faults import UnknownFormat
from recipec.dataset.formats import BadRows, recognise
from recipec.dataset.side_by_side import questions_and_answers
from recipec.dataset.suggested import suggested_columns

_Path = tuple[str, ...]
_READ = MEANT.keys() | {
    name for row in ROW_FORMATS.values() for role in row.roles for name in (role.name, *role.aliases)
}
_DEEPEST = 3  # objects within each other: recipec's choice


def columns_within(rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat]) -> Iterator[str]:
    """Yield the command for the first object of which a format reads the columns, and the line that names them."""
    for path in _objects(rows):
        lifted = [_lifted(row, path) for row in rows]
        read = _is_read(lifted, places, formats)
        told = [] if read else [*_named(lifted, formats)]
        if read or told:
            yield from _bringing(rows, path, places[0], told)
            return


def _bringing(rows: Sequence[Row], path: _Path, place: str, told: Sequence[str]) -> Iterator[str]:
    """Yield the command for one object and what follows it; or which columns stand in its way."""
    bring = f"{AT_THE_TOP}: bring those of `{'.'.join(path)}` there"
    clash = _clashing(rows, path)
    if clash and not _renamable(rows, path, clash):
        names = ", ".join(f"`{name}`" for name in clash)
        yield f"{bring}; first rename or remove {names}, which a row has in two places with different values"
    elif command := python_command(" | ".join(_read_level_by_level(path, clash)), "for row in rows", place):
        renamed = ", ".join(f"`{name}` as `{path[-1]}_{name}`" for name in clash)
        yield f"{bring}{f', {renamed}' * bool(clash)}: {command}"
        yield from (f"then {line}" for line in told)


def _renamable(rows: Sequence[Row], path: _Path, clash: Sequence[str]) -> bool:
    """Whether the columns of an object with other values than those of the row may take its name: none is read, and
    no row has one of that name."""
    taken = {name for row in rows for level in _levels(row, path) for name in level}
    free = not any(f"{path[-1]}_{name}" in taken for name in clash)
    return len(path) == 1 and free and not _READ.intersection(clash)


def _read_level_by_level(path: _Path, renamed: Sequence[str]) -> Iterator[str]:
    """What stands beside each object of the path, and what the last one holds, for Python."""
    held = "row"
    for name in (json.dumps(name, ensure_ascii=False) for name in path):
        yield f"{{key: held for key, held in {held}.items() if key != {name}}}"
        held += f"[{name}]"
    listed, under = json.dumps(renamed, ensure_ascii=False), json.dumps(f"{path[-1]}_", ensure_ascii=False)
    yield f"{{{under} * (key in {listed}) + key: value for key, value in {held}.items()}}" if renamed else held


def _objects(rows: Sequence[Row], within: _Path = ()) -> Iterator[_Path]:
    """The paths of the objects that every row has, outer ones first."""
    found = [
        (*within, name) for name in rows[0] if name.strip() and all(isinstance(row.get(name), Mapping) for row in rows)
    ]
    yield from found
    for path in found if len(within) + 1 < _DEEPEST else ():
        yield from _objects([row[path[-1]] for row in rows], path)


def _levels(row: Row, path: _Path) -> list[Row]:
    """The columns of a row that stand beside each object of the path, and those within the last one."""
    levels, held = [], row
    for name in path:
        levels.append({key: value for key, value in held.items() if key != name})
        held = held[name]
    return [*levels, held]


def _lifted(row: Row, path: _Path) -> Row:
    return {key: value for level in _levels(row, path) for key, value in level.items()}


def _clashing(rows: Sequence[Row], path: _Path) -> list[str]:
    """The columns that a row has on two levels with different values: at the top it would keep one of them."""
    pairs = ((level, _lifted(row, path)) for row in rows for level in _levels(row, path))
    return list(dict.fromkeys(name for level, row in pairs for name in level if [level[name]] != [row[name]]))


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
