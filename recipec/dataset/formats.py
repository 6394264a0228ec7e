"""Tell the format of training rows from their columns. What each format needs is its row in recipec/axes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ROW_FORMATS, Role, RowFormat
from recipec.axes.row_formats import DIGITS, EITHER, FLAG_TEXTS, FLAGS, MESSAGES, TEXTS, WORDS
from recipec.dataset.backwards import as_labels, forward
from recipec.dataset.classes import each_once, suggested_answers
from recipec.dataset.contents import (
    NO_VALUE,
    BadContent,
    Row,
    Unanswered,
    content_of,
    flag_of,
    flag_text,
    lacking,
    on_a_written_scale,
    rated_columns,
)
from recipec.dataset.faults import RowFault, UnknownFormat, told
from recipec.dataset.readings import check_one_reading, named_roles, names_of
from recipec.dataset.sample import SAMPLE_ROWS
from recipec.dataset.suggested import line_of_excel, misnamed, suggested_columns, with_renaming

MOST_NAMES = 12  # columns that a message lists


class DataShape(Struct, frozen=True):
    """The format of a source and what its columns hold."""

    format: str
    columns: Mapping[str, str]  # role -> column
    content: str  # what the columns hold, apart from flags: TEXTS, MESSAGES, EITHER of them, FROM_VALUE or IDS
    evidence: str
    carries: tuple[str, ...] = ()  # what rows have beside the columns: names of CARRIED
    handed: tuple[str, ...] = ()  # columns that are handed to reward functions
    flags: str = ""  # how they are written: a name of FLAG_TEXTS; "" where the format has none, or none was seen

    @classmethod
    def described(cls, format: str, renamed: Mapping[str, str], evidence: str) -> DataShape:
        """The shape that a recipe states without the rows being seen; every role has its first usual name."""
        row = ROW_FORMATS[format]
        columns = {role.name: _usual_name(role, renamed) for role in _roles(row)}
        return cls(format, columns, EITHER if row.wraps else row.required[0].holds[0], evidence)

    @property
    def written(self) -> tuple[Hashable, ...]:
        """What a converter of such rows depends on."""
        return (self.format, *sorted(self.columns.items()), self.content, self.flags)

    @property
    def implicit_prompt(self) -> bool:
        """Whether the role that can be left out is: other columns then share its text as their beginning."""
        implicit = ROW_FORMATS[self.format].implicit
        return bool(implicit) and implicit not in self.columns


class BadRows(UnknownFormat):
    """Rows of one format, some of which cannot be read."""

    def __init__(self, faults: Sequence[RowFault], shape: DataShape) -> None:
        super().__init__("; ".join(told(faults)))
        self.faults, self.shape = tuple(faults), shape  # the shape is that of the other rows


def recognise(
    rows: tuple[Row, ...],
    formats: Iterable[str] | None,
    renamed: Mapping[str, str],
    where: list[str],
    ignored: Iterable[str] = (),
    rivals: Iterable[str] = (),
    *,
    skips: bool = False,
) -> DataShape:
    """The one format that all rows have: the first that fits of `formats`, or of all.

    What is `ignored` is not read where rows have a format without it. `renamed` is the recipe's data.columns; `where`
    names each row for messages. With `skips`, rows that lack what their format needs are left out (data.incomplete).
    Raises UnknownFormat: TwoReadings where a row has two names of one column, or fits one of the `rivals` too, and
    BadRows where some rows of the format cannot be read.
    """
    tried = [ROW_FORMATS[name] for name in (ROW_FORMATS if formats is None else formats)]
    tried.sort(key=lambda format: -named_roles(format, renamed))
    rows = _without_ignored(rows, tried, renamed, {*ignored})
    format = _common_format(rows, tried, renamed, where)
    for place, row in zip(where, rows, strict=True):
        others = (ROW_FORMATS[name] for name in rivals if name != format.name)
        check_one_reading(row, place, format, others, renamed, {*ignored})
    placed = list(zip(where, rows, strict=True))
    whole = [(place, row) for place, row in placed if _fits(row, format, renamed)]
    columns = _common_columns(whole, format, renamed)
    lacks = {place: lost for place, row in placed if (lost := lacking(row, format, columns))}
    whole = [(place, row) for place, row in whole if not (skips and place in lacks)]
    contents, faults = _contents(whole, format, columns)
    faults += [
        fault for place, row in placed for fault in _lacking(place, row, format, renamed, columns, place in lacks)
    ]
    faults = [replace(fault, lacks=lacks.get(fault.place, "")) for fault in faults]
    faults = [fault for fault in faults if not (skips and fault.place in lacks)]
    shown = " and ".join(f"`{columns[role.name]}`" for role in format.required)
    evidence = f"{_all(len(rows))} sampled rows have {shown}"
    content, flags = _common_content(contents, format) if contents else TEXTS, _common_flags(whole, format, columns)
    shape = DataShape(format.name, columns, content, evidence + _meaning(format, columns, flags), flags=flags)
    if faults:
        raise BadRows(sorted(faults, key=lambda fault: where.index(fault.place)), shape)
    return shape


Placed = list[tuple[str, Row]]  # rows, each after its place


def _without_ignored(
    rows: tuple[Row, ...], formats: list[RowFormat], renamed: Mapping[str, str], ignored: set[str]
) -> tuple[Row, ...]:
    """The rows without what is ignored; what they need in any case is left, and said to be read."""
    without = tuple({name: value for name, value in row.items() if name not in ignored} for row in rows)
    if any(_fits(row, format, renamed) for row in without for format in formats):
        return without
    needed = {name for format in formats for role in format.required for name in names_of(role, renamed)}
    return tuple({name: row[name] for name in row if name not in ignored - needed} for row in rows)


def _common_format(
    rows: tuple[Row, ...], formats: list[RowFormat], renamed: Mapping[str, str], where: list[str]
) -> RowFormat:
    """The format of all rows that have one; where a flag alone makes the difference, the one that has it.

    Rows of a format that needs less are taken for incomplete ones, where most rows have more.
    """
    found = [next((format for format in formats if _fits(row, format, renamed)), None) for row in rows]
    kinds = list({format.name: format for format in found if format}.values())
    if not kinds:
        seen = f"{where[0]} has the columns {_names(rows[0])}: {_wanted(formats, renamed)}"
        lines = (
            [*line_of_excel(rows[0])]
            or [*_close(rows, where[0], formats, renamed)]
            or [*suggested_columns(rows, formats, renamed)]
        )
        lines = each_once([*suggested_answers(rows, where[0], formats)], with_renaming(rows[0], lines))
        raise UnknownFormat(seen, (*misnamed(rows, renamed), *lines))
    most = [format for format in kinds if 2 * found.count(format) > len(found)]
    common = next((format for format in kinds if all(_is_flagged(format, other) for other in kinds)), None)
    common = common or next((format for format in most if all(_has_all_of(format, other) for other in kinds)), None)
    if common is None:
        place, other = next(
            (place, format) for place, format in zip(where, found, strict=True) if format not in (None, kinds[0])
        )
        first = where[found.index(kinds[0])]
        names = f"{first} is {kinds[0].name}, but {place} is {other.name}"
        raise UnknownFormat(f"{names}: one source must have one format")
    return common


def _is_flagged(format: RowFormat, other: RowFormat) -> bool:
    """Whether rows of the one are those of the other, with a flag or without."""
    more = {role.name for role in format.required} - {role.name for role in other.required}
    flags = {role.name for role in format.required if role.holds == FLAGS}
    return _has_all_of(format, other) and more <= flags


def _has_all_of(format: RowFormat, other: RowFormat) -> bool:
    """Whether rows of the one have all that those of the other need."""
    return {role.name for role in other.required} <= {role.name for role in format.required}


def _lacking(
    place: str, row: Row, format: RowFormat, renamed: Mapping[str, str], columns: Mapping[str, str], lacks: bool
) -> Iterator[RowFault]:
    """That a row has not all columns that the format needs, or no prompt, which others have."""
    found = _columns(row, format, renamed)
    asked = {format.implicit} & columns.keys() if lacks else {}
    lost = [role for role in format.roles if (role.required or role.name in asked) and role.name not in found]
    if lost:
        names = " and ".join(f"`{_usual_name(role, renamed)}`" for role in lost)
        flag = next((_usual_name(role, renamed) for role in lost if role.holds == FLAGS), "")
        yield RowFault(place, f"it has no {names}, which other rows have; its columns are {_names(row)}", flag)


def _fits(row: Row, format: RowFormat, renamed: Mapping[str, str]) -> bool:
    """Whether the row has every column that the format needs."""
    columns = _columns(row, format, renamed)
    return all(role.name in columns for role in format.required)


def _close(rows: tuple[Row, ...], place: str, formats: list[RowFormat], renamed: Mapping[str, str]) -> Iterator[str]:
    """What to write where one flag is all that the rows lack, and a column of theirs holds flags or is the only one."""
    for format in formats:
        flag = next((role for role in format.required if role.holds == FLAGS), None)
        found = _columns(rows[0], format, renamed)
        if flag and not {role.name for role in format.required} - found.keys() - {flag.name}:
            others = [name for name in rows[0] if name not in found.values() and not on_a_written_scale(rows, name)]
            yield from as_labels(rows, place, others)
            others = forward(rows, others)
            for name in rated_columns(rows, others) or others[: len(others) == 1]:
                column = json.dumps(name, ensure_ascii=False)
                yield f"name the column that is true or false: `columns = {{ {flag.name} = {column} }}`"


def flag_columns(rows: Iterable[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that hold a flag in every row."""
    return [name for name in names if all(flag_of(row.get(name)) is not None for row in rows)]


def _flag_faults(placed: Placed, format: RowFormat, columns: Mapping[str, str]) -> list[RowFault]:
    """Every flag of a source is written alike: a column that mixes true and 1 may mean two things by them."""
    names = (columns[role.name] for role in format.required if role.holds == FLAGS)
    return [fault for name in names for fault in _flags_unlike(placed, format, name)]


def _flags_unlike(placed: Placed, format: RowFormat, name: str) -> Iterator[RowFault]:
    first = next(((place, row[name]) for place, row in placed if flag_of(row[name]) is not None), None)
    for place, row in placed:
        value = row[name]
        if flag_of(value) is None:
            held = f"`{name}` holds {_shown(value)}, where {format.name} rows hold {WORDS}, or {DIGITS}"
            yield RowFault(place, held, name)
        elif first and _written(value) != _written(first[1]):
            held = f"`{name}` holds {_shown(value)}, but {first[0]} holds {_shown(first[1])}"
            yield RowFault(place, held, name)


def _all(rows: int) -> str:
    """All rows, in words where small files are read to their end: a row more is to change no text."""
    return f"{rows} of {rows}" if rows <= SAMPLE_ROWS else "all"


def _shown(value: Any) -> str:
    return NO_VALUE if value is None else f"{json.dumps(value, ensure_ascii=False):.40}"


def _written(flag: Any) -> str:
    """The name of the pair of FLAG_TEXTS that the flag is of."""
    return next(name for name, pair in FLAG_TEXTS.items() if flag_text(flag) in pair)


def _meaning(format: RowFormat, columns: Mapping[str, str], flags: str) -> str:
    """Which of the texts in a column of flags is taken for a good answer, where they do not say true or 1."""
    if flags in ("", WORDS, DIGITS):
        return ""
    name = next(columns[role.name] for role in format.required if role.holds == FLAGS)
    return "; `{}`: {} is true, {} is false".format(name, *FLAG_TEXTS[flags])


def _common_flags(placed: Placed, format: RowFormat, columns: Mapping[str, str]) -> str:
    """How the first flag is written, as all others must be."""
    names = [columns[role.name] for role in format.required if role.holds == FLAGS]
    flags = (row[name] for name in names for _, row in placed if flag_of(row[name]) is not None)
    return next(map(_written, flags), "")


def _columns(row: Row, format: RowFormat, renamed: Mapping[str, str]) -> dict[str, str]:
    """Role -> column, for the roles of the format that the row has."""
    found = {role.name: _column(row, role, renamed) for role in _roles(format)}
    return {role: name for role, name in found.items() if name is not None}


def _roles(format: RowFormat) -> list[Role]:
    """Those that a row must have come first."""
    return sorted(format.roles, key=lambda role: not role.required)


def _column(row: Row, role: Role, renamed: Mapping[str, str]) -> str | None:
    return next((name for name in names_of(role, renamed) if name in row), None)


def _usual_name(role: Role, renamed: Mapping[str, str]) -> str:
    return next(iter(names_of(role, renamed)), role.aliases[0])


def _common_columns(placed: Placed, format: RowFormat, renamed: Mapping[str, str]) -> dict[str, str]:
    """Role -> column, the same in every row; a row may lack what it may leave out, and later rows may have it."""
    found = [(place, _columns(row, format, renamed)) for place, row in placed]
    common = {role: name for _, columns in reversed(found) for role, name in columns.items()}
    optional = [role for role in format.roles if format.may_lack(role.name) and role.name not in renamed]
    common = {role.name: _usual_name(role, renamed) for role in optional} | common
    incomplete = {place for place, row in placed if lacking(row, format, common)}
    for place, columns in found:
        for role, name in common.items():
            if role == format.implicit and role not in columns and place in incomplete:
                continue
            if not format.may_lack(role) and columns.get(role) != name:
                other = f"`{columns[role]}`" if role in columns else "no such column"
                said = f"the {role} is in `{name}`, but {place} has {other}: one source must have one"
                raise UnknownFormat(said, _one_of_all(role, name, format))
    return common


def _one_of_all(role: str, name: str, format: RowFormat) -> tuple[str, ...]:
    """What to write where only some answers begin with what is asked."""
    if role != format.implicit:
        return ()
    sides = " and ".join(f"`{answer.name}`" for answer in format.required)
    return (f"write what is asked into `{name}` of every row, and the answers alone into {sides}",)


def _contents(
    placed: Placed, format: RowFormat, columns: Mapping[str, str]
) -> tuple[list[tuple[str, str]], list[RowFault]]:
    """What the columns of each row hold, and the rows that hold something else than their format says.

    Conversations without a message are passed over, where others have one: preparation leaves them out.
    """
    contents, faults, empty = [], _flag_faults(placed, format, columns), []
    for place, row in placed:
        try:
            contents.append((place, content_of(row, format, columns)))
        except Unanswered as error:
            empty.append(RowFault(place, str(error)))
        except BadContent as error:
            faults.append(RowFault(place, str(error)))
    return contents, faults if contents else [*faults, *empty]


def _common_content(contents: list[tuple[str, str]], format: RowFormat) -> str:
    """What the columns of all rows hold. Raises UnknownFormat."""
    first, content = contents[0]
    held = {content for _, content in contents}
    if format.wraps and len(held) > 1 and held <= {TEXTS, MESSAGES, EITHER}:
        return EITHER
    for place, other in contents:
        if other != content:
            raise UnknownFormat(f"{first} has {content}, but {place} has {other}")
    return content


def _names(row: Row) -> str:
    listed = ", ".join(f"`{name}`" for name in list(row)[:MOST_NAMES]) or "none"
    return f"{listed}, …" if len(row) > MOST_NAMES else listed


def _wanted(formats: list[RowFormat], renamed: Mapping[str, str]) -> str:
    if len(formats) == 1:
        needed = ", ".join(f"`{renamed.get(role.name, role.name)}`" for role in formats[0].required)
        return f"{formats[0].name} needs {needed} (data.columns can rename)"
    known = "; ".join(f"{row.name}: {' + '.join(role.name for role in row.required)}" for row in formats)
    return f"no known format fits ({known}); name yours in data.columns"
