"""Values in Parquet files that Python or JSON cannot hold: each is refused with its column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from recipec.dataset.rows import Unreadable
from recipec.dataset.sample import ReadAs, read_sample

ROWS = 5
YEAR_10000 = 253_402_300_800


def texts(first: bytes) -> pa.Array:
    """A column of texts of which the first may be no text."""
    found = pa.array([first] + [b"x"] * (ROWS - 1))
    return pa.StringArray.from_buffers(ROWS, *found.buffers()[1:])


def column(kind: pa.DataType, value: object) -> pa.Array:
    """Rows that are all null but the second."""
    return pa.array([None, value] + [None] * (ROWS - 2), type=kind)


TWICE = pa.struct([("k", pa.string()), ("k", pa.string())])
# Column `c` -> the row that is named, and a word of the reason.
REFUSED: dict[str, tuple[pa.Array, str, str]] = {
    "no UTF-8": (texts(b"\xff\xfe"), ", row 1", "`c` holds a text that is not UTF-8 (byte 0xff)"),
    "no UTF-8 in a field": (pa.StructArray.from_arrays([texts(b"\xe9")], names=["k"]), ", row 1", "byte 0xe9"),
    "year 10000": (column(pa.timestamp("s"), YEAR_10000), ", row 2", "`c` holds a date outside the years 1 to 9999"),
    "before year 1": (column(pa.timestamp("us", tz="UTC"), -(2**62)), ", row 2", "outside the years"),
    "a day far away": (column(pa.date32(), 2**30), ", row 2", "outside the years"),
    "no time zone": (column(pa.timestamp("us", tz="Nowhere/X"), 1), "", "time zone `Nowhere/X`, which is not known"),
    "two fields of one name": (pa.nulls(ROWS, TWICE), "", "the type struct<k: string, k: string>"),
    "two fields in a list": (pa.array([[]] * ROWS, type=pa.list_(TWICE)), "", "the type struct<k: string, k: string>"),
    "a key twice": (column(pa.map_(pa.string(), pa.string()), [("a", "b"), ("a", "c")]), ", row 2", "a key twice"),
    "deep JSON": (column(pa.json_(), "[" * 80 + "]" * 80), ", row 2", "more than 64 deep"),
    "deeper JSON": (column(pa.json_(), "[" * 900 + "]" * 900), ", row 2", "more than 64 deep"),
}


def write(folder: Path, values: pa.Array) -> Path:
    """A file of ten-letter prompts beside the column."""
    file = folder / "a.parquet"
    parquet.write_table(pa.table({"prompt": ["Ten things"] * ROWS, "c": values}), file)
    return file


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_is_refused_with_its_column(tmp_path: Path, case: str) -> None:
    values, row, said = REFUSED[case]
    with pytest.raises(Unreadable) as error:
        read_sample([write(tmp_path, values)], "a.parquet", reading=ReadAs((), times=("c",)))
    assert error.value.where == f"a.parquet{row}"
    assert said in error.value.reason


def test_a_row_with_nul_is_told_beside_the_others(tmp_path: Path) -> None:
    sample = read_sample([write(tmp_path, column(pa.string(), "a\0b"))], "a.parquet", reading=ReadAs(()))
    assert sample is not None and len(sample.rows) == ROWS - 1
    assert sample.broken == (("a.parquet, row 2", r"a NUL character (\u0000)"),)


def test_a_column_with_two_fields_of_one_name_can_be_ignored(tmp_path: Path) -> None:
    """prepare_data.py does not read it either."""
    values = pa.StructArray.from_arrays([texts(b"x"), texts(b"y")], names=["k", "k"])
    sample = read_sample([write(tmp_path, values)], "a.parquet", reading=ReadAs(("c",)))
    assert sample is not None and sample.rows[0] == {"prompt": "Ten things", "c": None}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+02:00", "UTC"])
def test_times_of_a_known_zone_are_read(tmp_path: Path, zone: str) -> None:
    file = write(tmp_path, column(pa.timestamp("us", tz=zone), 10**15))
    sample = read_sample([file], "a.parquet", reading=ReadAs((), times=("c",)))
    assert sample is not None and sample.rows[1]["c"].startswith("2001-09-09T")
