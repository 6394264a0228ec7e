"""What is wrong with the tables of a file of measurements, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from recipec.catalog.measured import BOUNDS, FORMAT, HEAD, SPREAD, SPREAD_BOUNDS, TABLES, Table
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe.document import Document, nearest
from recipec.recipe.locate import KeyPath
from recipec.recipe.shown import shown

_WRITTEN = ("`recipec probe` writes these files; run it again",)


def findings(document: Document) -> Iterator[Diagnostic]:
    """Yield E0201 to E0205 of a document; nothing else may be asked of one that has any."""
    data = document.data
    yield from _unknown(document, (), data, (*HEAD, *TABLES), "a file of measurements")
    yield from _head(document)
    for name, table in TABLES.items():
        if name in data:
            yield from _table(document, name, table, data[name])
        elif table.needed:
            yield _missing(document, (), name, "the file")


def _head(document: Document) -> Iterator[Diagnostic]:
    data = document.data
    for key in HEAD:
        if key not in data:
            yield _missing(document, (), key, "the file")
    if "format" in data and data["format"] != FORMAT:
        yield _refused(document, ("format",), "E0204", f"this recipec reads format {FORMAT}")
    if "date" in data and type(data["date"]) is not date:
        yield _refused(document, ("date",), "E0202", "expected a date: 2026-11-23")


def _table(document: Document, name: str, table: Table, value: Any) -> Iterator[Diagnostic]:
    """One table, or each of a list of them."""
    rows = value if table.many else [value]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        expected = f"expected tables [[{name}]]" if table.many else f"expected a table [{name}]"
        yield _refused(document, (name,), "E0202", expected)
        return
    for index, row in enumerate(rows):
        path: KeyPath = (name, index) if table.many else (name,)
        yield from _unknown(document, path, row, table.keys, f"[{name}]")
        for key in table.keys:
            if key in row:
                yield from _value(document, (*path, key), table, row[key])
            else:
                yield _missing(document, path, key, f"[{name}]")


def _value(document: Document, path: KeyPath, table: Table, value: Any) -> Iterator[Diagnostic]:
    """The type of a value, then what it may be."""
    key = str(path[-1])
    expected = _wrong_type(table, key, value)
    if expected:
        yield _refused(document, path, "E0202", f"expected {expected}")
    elif key in table.choices and value not in table.choices[key]:
        yield _refused(document, path, "E0204", f"one of {', '.join(table.choices[key])}")
    elif isinstance(value, int | float):
        least, most = SPREAD_BOUNDS if key.endswith(SPREAD) else BOUNDS[key]
        if not least <= value <= most:  # nor is nan
            yield _refused(document, path, "E0205", f"no machine has that: expected {least:g} to {most:,.15g}")


def _wrong_type(table: Table, key: str, value: Any) -> str:
    """What was expected instead; empty where the type is right."""
    if key in table.lists:
        return "" if isinstance(value, list) and all(isinstance(each, str) for each in value) else "a list of texts"
    if key in (*table.choices, *table.texts):
        return "" if isinstance(value, str) else "a text"
    if key in table.sizes:
        return "" if type(value) is int else "a whole number"
    return "" if type(value) in (int, float) else "a number"


def _unknown(document: Document, path: KeyPath, row: Any, keys: tuple[str, ...], of: str) -> Iterator[Diagnostic]:
    for key in row:
        if key not in keys:
            label = Label(document.places[(*path, key)].key, f"not a key of {of}")
            help = (f"the keys are {', '.join(f'`{known}`' for known in keys)}",)
            yield Diagnostic("E0203", f"unknown key `{key}` in {of}", (label,), help)


def _missing(document: Document, path: KeyPath, key: str, of: str) -> Diagnostic:
    label = Label(nearest(document.places, path, document).key, f"needs `{key}`")
    return Diagnostic("E0201", f"missing key `{key}` in {of}", (label,), _WRITTEN)


def _refused(document: Document, path: KeyPath, code: str, message: str) -> Diagnostic:
    named = ".".join(str(part) for part in path if isinstance(part, str))
    value = document.data
    for part in path:
        value = value[part]  # type: ignore[index]
    label = Label(document.places[path].value, message)
    return Diagnostic(code, f"`{named}` is {shown(value, bare=True)}", (label,), _WRITTEN)
