"""Where keys and values are found in TOML text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from toml_documents import documents

from recipec.diagnostics.model import Span
from recipec.recipe.locate import KeyPath, dotted, locate


def slice_of(text: str, span: Span) -> str:
    """Return the text under a span."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return text[starts[span.line - 1] + span.col - 1 : starts[span.end_line - 1] + span.end_col - 1]


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every scalar, empty list and empty table with its path."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not children or not value:
        yield path, value
    for key, child in children:
        yield from leaves(child, (*path, key))


@settings(max_examples=300, deadline=None)
@given(documents())
def test_every_located_value_parses_to_its_value(text: str) -> None:
    entries = locate(text)
    for path, value in leaves(tomllib.loads(text)):
        if path and not (value == {} and slice_of(text, entries[path].value).startswith("[")):  # an empty [table]
            assert tomllib.loads(f"v = {slice_of(text, entries[path].value)}")["v"] == value


@settings(max_examples=100, deadline=None)
@given(documents())
def test_every_path_is_located(text: str) -> None:
    entries = locate(text)
    for path, _ in leaves(tomllib.loads(text)):
        for depth in range(1, len(path) + 1):
            assert path[:depth] in entries


CASES = {
    "bare": ("a = 1", ("a",), "a", "1"),
    "comment after": ("a = 1 # one", ("a",), "a", "1"),
    "CRLF": ("a = 1\r\nb = 2\r\n", ("a",), "a", "1"),
    "wide characters count one column": ('日 = 1\nb = "日本" # x'.replace("日 =", '"日" ='), ("b",), "b", '"日本"'),
    "dotted": ("lora . rank = 8", ("lora", "rank"), "lora . rank", "8"),
    "dotted parent": ("lora.rank = 8", ("lora",), "lora", "lora"),
    "quoted key": ("\"a b\".'c.d' = 1", ("a b", "c.d"), "\"a b\".'c.d'", "1"),
    "header": ("[ train ]\na = 1", ("train",), "[ train ]", "[ train ]"),
    "table without a header": ("[train.sft]\na = 1", ("train",), "[train.sft]", "[train.sft]"),
    "inline table": ("a = {b = {c = 'x'}}", ("a", "b", "c"), "c", "'x'"),
    "array": ("a = [1,\n 2, # two\n]", ("a", 1), "2", "2"),
    "array of tables": ("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3", ("a", 1, "b", "y"), "y", "3"),
    "multi-line text": ('a = """\nx\n"""\n', ("a",), "a", '"""\nx\n"""'),
    "quotes before the closing ones": ('a = """x"""""\nb = 1', ("a",), "a", '"""x"""""'),
    "date": ("a = 2026-01-01 10:00:00 # day", ("a",), "a", "2026-01-01 10:00:00"),
}


@pytest.mark.parametrize(("text", "path", "key", "value"), CASES.values(), ids=CASES.keys())
def test_key_and_value_are_found(text: str, path: KeyPath, key: str, value: str) -> None:
    entry = locate(text)[path]
    assert (slice_of(text, entry.key), slice_of(text, entry.value)) == (key, value)


def test_columns_count_characters() -> None:
    assert locate('a = "日本"\n')[("a",)].value == Span(1, 5, 1, 9)


def test_a_path_reads_as_a_reader_would_write_it() -> None:
    assert dotted(("data", "train", 2, "weight")) == "data.train[2].weight"
