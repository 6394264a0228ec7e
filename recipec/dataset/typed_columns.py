"""The first rows of Parquet files, and which types of their columns are values of rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipec.dataset.rows import Row, Unreadable, listed_twice, no_value, once, why

if TYPE_CHECKING:
    from pyarrow import Array, DataType, Field, Schema
    from pyarrow.parquet import ParquetFile


def parquet_rows(
    file: Path, shown: str, limit: int, ignored: Collection[str] | None, times: Collection[str] = ()
) -> tuple[list[Row], int]:
    """The first rows of a file, and how many it has. Raises Unreadable.

    A column of a type that no value of a row has is refused, or where it is `ignored` not read, and null; None ignores
    all of them. Dates in the columns `times`, which are read as times, are texts.
    """
    with _opened(file, shown) as table:
        fields = _read(table.schema_arrow, shown, ignored, times)
        batch = next(table.iter_batches(limit, columns=[field.name for field in fields]), None)
        columns = [_values(batch[field.name], field.name, shown) for field in fields] if batch is not None else []
        absent = dict.fromkeys(table.schema_arrow.names)
        found = enumerate(zip(*columns, strict=True), 1)
        return [_row(row, number, shown, fields, absent) for number, row in found], table.metadata.num_rows


def parquet_length(file: Path, shown: str) -> int:
    """How many rows a file has. Raises Unreadable."""
    with _opened(file, shown) as table:
        return table.metadata.num_rows


@contextmanager
def _opened(file: Path, shown: str) -> Iterator[ParquetFile]:
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(file) as table:
            yield table
    except ArrowException as error:
        raise Unreadable(shown, f"it is not Parquet: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise Unreadable(shown, why(error)) from error
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error


def _read(schema: Schema, shown: str, ignored: Collection[str] | None, times: Collection[str]) -> list[Field]:
    """The columns that are read. Raises Unreadable where one has a type that no value of a row has."""
    if twice := listed_twice(name for name in schema.names if name not in (ignored or ())):
        raise Unreadable(shown, f"several of its columns are named {twice}")
    dates = [field for field in schema if field.name in times and _is_date(field.type)]
    odd = [(field.name, *found) for field in schema if field not in dates for found in _odd(field.name, field.type)]
    if refused := [found for found in odd if ignored is not None and {*found[:2]}.isdisjoint(ignored)]:
        raise Unreadable(shown, "; ".join(_said(*found) for found in refused), (_help(refused, ignored or ()),))
    for field in dates:
        _check_zone(field, shown)
    unread = {column for column, name, _ in odd if column == name}
    return [field for field in schema if field.name not in unread]


def _values(column: Array, name: str, shown: str) -> list[Any]:
    """The values of a column. Raises Unreadable with the row of the first that Python cannot hold."""
    try:
        return column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, OverflowError, KeyError):
        for number, value in enumerate(column, 1):
            try:
                value.as_py(maps_as_pydicts="strict")
            except (ValueError, OverflowError, KeyError) as error:
                raise Unreadable(f"{shown}, row {number}", f"its column `{name}` holds {_unheld(error)}") from error
        raise


def _unheld(error: Exception) -> str:
    """What a value holds, by the error that it raises."""
    if isinstance(error, UnicodeDecodeError):
        return f"a text that is not UTF-8 (byte 0x{error.object[error.start]:02x})"
    if isinstance(error, OverflowError):
        return "a date outside the years 1 to 9999"
    return f"a map that has a key twice: {error.args[0]}" if isinstance(error, KeyError) else str(error)


def _odd(name: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """What is not of a type that values of rows have, by the name of the column or the field."""
    from pyarrow import BaseExtensionType, types

    if types.is_struct(kind) and not listed_twice(field.name for field in kind):
        for field in kind:
            yield from _odd(field.name, field.type)
    elif types.is_map(kind) and _is_text(kind.key_type):
        yield from _odd(name, kind.item_type)
    elif hasattr(kind, "value_type") and not isinstance(kind, BaseExtensionType):  # lists, and texts in a dictionary
        yield from _odd(name, kind.value_type)
    elif not (_is_json(kind) or _is_text(kind) or _is_number(kind)):
        yield name, kind


def _is_json(kind: DataType) -> bool:
    """Whether texts hold a value as JSON, as `datasets` writes what differs from row to row."""
    from pyarrow import JsonType

    return isinstance(kind, JsonType)


def _is_text(kind: DataType) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_number(kind: DataType) -> bool:
    """Also true and false, and null."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)


def _is_date(kind: DataType) -> bool:
    from pyarrow import types

    return types.is_date(kind) or types.is_timestamp(kind)


def _check_zone(field: Field, shown: str) -> None:
    """Raise Unreadable where Python does not know the time zone of a column."""
    from pyarrow.lib import string_to_tzinfo

    zone = getattr(field.type, "tz", None)
    try:
        if zone is not None:
            string_to_tzinfo(zone)
    except (ValueError, KeyError, OSError) as error:  # of pyarrow, of zoneinfo, and of paths made of the name
        said = f"its column `{field.name}` is in the time zone `{zone:.60}`, which is not known"
        raise Unreadable(shown, said, ("write the times in UTC",)) from error


def _said(column: str, name: str, kind: DataType) -> str:
    held = f"its column `{column}` holds" if name == column else f"`{name}` in its column `{column}` holds"
    return f"{held} values of the type {kind}, which JSON does not have"


def _help(refused: list[tuple[str, str, DataType]], ignored: Collection[str]) -> str:
    names = list(dict.fromkeys(name for _, name, _ in refused))
    line = json.dumps([*ignored, *names], ensure_ascii=False)
    what = "it" if len(names) == 1 else "them"
    return f"write {what} as text or numbers, or train without it: `ignore = {line}` under [data]"


def _row(values: Sequence[Any], number: int, shown: str, fields: Sequence[Field], absent: Mapping[str, None]) -> Row:
    found: Row = dict(absent)
    for value, field in zip(values, fields, strict=True):
        try:
            found[field.name] = _value(value, field.type)
        except (ValueError, RecursionError) as error:
            said = f"its column `{field.name}` holds a text that is no JSON: {why(error)}"
            raise Unreadable(f"{shown}, row {number}", said) from error
    return found


def _value(value: Any, kind: DataType) -> Any:
    """The value of a column as JSON has it; what is ignored and of another type is null, as NaN is."""
    from pyarrow import types

    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    if _is_json(kind):
        return json.loads(value, object_pairs_hook=once, parse_constant=no_value)
    if _is_date(kind):
        return value.isoformat()
    if types.is_struct(kind):
        ignored = {part.name for part in kind if part.name in dict(_odd(part.name, part.type))}
        return {part.name: None if part.name in ignored else _value(value[part.name], part.type) for part in kind}
    if types.is_map(kind):
        return {name: _value(part, kind.item_type) for name, part in value.items()}
    return [_value(part, kind.value_type) for part in value] if isinstance(value, list) else value
