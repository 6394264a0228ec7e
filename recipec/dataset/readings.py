"""Rows that can be read in two ways: by two names of one column, or as rows of two formats. Both are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from recipec.axes import Role, RowFormat
from recipec.dataset.contents import NOTHING, Row
from recipec.dataset.faults import TwoReadings

_SHOWN = 40  # characters of a value


def check_one_reading(
    row: Row, place: str, format: RowFormat, rivals: Iterable[RowFormat], renamed: Mapping[str, str], ignored: set[str]
) -> None:
    """Raise TwoReadings where the row holds a role twice, or is whole as a row of one of the `rivals` too.

    `renamed` and `ignored` are what the recipe says of columns already.
    """
    for role in format.roles:
        names = _holding(row, role, renamed)
        if len(names) > 1:
            shown = " or ".join(f"`{name}` {_value(row[name])}" for name in names)
            help = tuple(f"to read `{name}`: {_ignore({*names} - {name} | ignored)}" for name in names)
            raise TwoReadings(f"{place}: the {role.name} is {shown}", help)
    for rival in rivals:
        if _is_whole(row, rival, renamed) and _is_undecided(row, format, rival, renamed):
            own, theirs = (_columns(row, one, renamed) for one in (format, rival))
            help = (_to_read(format, {*theirs} - {*own} | ignored), _to_read(rival, {*own} - {*theirs} | ignored))
            shown = f"{_as_rows(row, format, own)} or {_as_rows(row, rival, theirs)}"
            raise TwoReadings(f"{place} is {shown}", help)


def names_of(role: Role, renamed: Mapping[str, str]) -> tuple[str, ...]:
    """The names under which a role is looked for: the recipe's alone, where it has one, and none of another role's."""
    if role.name in renamed:
        return (renamed[role.name],)
    return tuple(name for name in role.aliases if name not in renamed.values())


def named_roles(format: RowFormat, renamed: Mapping[str, str]) -> int:
    """How many roles of the format the recipe names a column for: rows are first tried against what it speaks of."""
    return sum(role.name in renamed for role in format.roles)


def _is_undecided(row: Row, format: RowFormat, rival: RowFormat, renamed: Mapping[str, str]) -> bool:
    """Whether neither holds all that the other does, and the recipe names no column of one of them alone.

    A text beside a question and its answer is those two once more, as data sets after Alpaca have it.
    """
    if format.turns and rival.splits:
        return False
    own, theirs = (set(_columns(row, one, renamed)) for one in (format, rival))
    all_own, all_theirs = (set(_columns(row, one, renamed, one.roles)) for one in (format, rival))
    return not (own <= all_theirs or theirs <= all_own) and named_roles(format, renamed) == named_roles(rival, renamed)


def _is_whole(row: Row, format: RowFormat, renamed: Mapping[str, str]) -> bool:
    return all(_holding(row, role, renamed) for role in format.required)


def _columns(row: Row, format: RowFormat, renamed: Mapping[str, str], roles: Iterable[Role] | None = None) -> list[str]:
    """The columns that hold what rows of the format need, or the given roles of it."""
    return [name for role in (format.required if roles is None else roles) for name in _holding(row, role, renamed)]


def _holding(row: Row, role: Role, renamed: Mapping[str, str]) -> list[str]:
    return [name for name in names_of(role, renamed) if row.get(name) not in NOTHING]


def _as_rows(row: Row, format: RowFormat, names: Iterable[str]) -> str:
    return f"a row of {format.name} ({', '.join(f'`{name}` {_value(row[name])}' for name in names)})"


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _to_read(format: RowFormat, others: set[str]) -> str:
    return f'to read {format.name} rows: {_ignore(others)}, or `format = "{format.name}"`'


def _ignore(names: set[str]) -> str:
    return f"`ignore = {json.dumps(sorted(names), ensure_ascii=False)}` under [data]"
