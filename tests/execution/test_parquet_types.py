"""Parquet: which types of columns are values of rows, at build and in prepare_data.py; any other is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from compiling import BASES, Tables, compiled, with_key
from pyarrow import parquet
from test_prepare_data import chats, emitted, prepared

from recipec.dataset import ReadAs, read_sample

pytestmark = pytest.mark.executes

DAY = dt.date(2026, 1, 31)
ODD = {
    "bytes": (pa.binary(), b"xx"),
    "date": (pa.date32(), DAY),
    "timestamp": (pa.timestamp("us"), dt.datetime(2026, 1, 31)),
    "decimal": (pa.decimal128(4, 2), Decimal("1.25")),
    "duration": (pa.duration("s"), dt.timedelta(1)),
    "list of dates": (pa.list_(pa.date32()), [DAY]),
    "map of numbers": (pa.map_(pa.int32(), pa.string()), [(1, "a")]),
}
PLAIN = {
    "map": (pa.map_(pa.string(), pa.int32()), [("a", 1)], {"a": 1}),
    "list view": (pa.list_view(pa.int32()), [1, 2], [1, 2]),
    "categories": (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
    "JSON": (pa.json_(), '{"a": [1, "b"]}', {"a": [1, "b"]}),
    "list of JSON": (pa.list_(pa.json_()), ['{"a": 1}', "2"], [{"a": 1}, 2]),
    "half": (pa.float16(), 1.5, 1.5),
}


def column_of(kind: pa.DataType, value: Any) -> pa.Array:
    """Thirty times the value; of JSON, which is stored as text."""
    if isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.JsonType):
        texts = pa.array([value] * 30, pa.list_(pa.string()))
        return pa.ListArray.from_arrays(texts.offsets, texts.values.cast(pa.json_()))
    return (
        pa.array([value] * 30, pa.string()).cast(kind)
        if isinstance(kind, pa.JsonType)
        else pa.array([value] * 30, kind)
    )


def place(folder: Path, kind: pa.DataType, value: Any, name: str = "extra") -> None:
    rows = pa.Table.from_pylist(chats(30)).append_column(name, column_of(kind, value))
    parquet.write_table(rows, folder / "chat.parquet")


def recipe(*ignored: str) -> Tables:
    made = with_key(BASES["cpu"], "data.train", "chat.parquet")
    return with_key(made, "data.ignore", list(ignored)) if ignored else made


def said(folder: Path, made: Tables) -> list[str]:
    return [
        " ".join([one.title, *(label.message for label in one.labels), *one.help])
        for one in compiled(folder, made).diagnostics
        if one.code == "E0304"
    ]


@pytest.mark.parametrize("case", ODD)
def test_a_type_that_json_lacks_is_refused_at_build(tmp_path: Path, case: str) -> None:
    kind, value = ODD[case]
    place(tmp_path, kind, value)
    (refused,) = said(tmp_path, recipe())
    assert "its column `extra` holds values of the type" in refused
    assert 'ignore = ["extra"]' in refused


@pytest.mark.parametrize("case", ODD)
def test_an_ignored_column_of_any_type_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    place(tmp_path, *ODD[case])
    script = emitted(tmp_path, recipe("extra"), monkeypatch)
    written, seen = script.written, []
    monkeypatch.setattr(script, "written", lambda row, place: seen.append({*row}) or written(row, place))
    script.main()
    assert seen == [{"messages"}] * 30
    assert len(prepared(tmp_path, "sft/train")) == 24


@pytest.mark.parametrize("case", ODD)
def test_a_file_that_no_build_has_seen_is_refused_with_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    place(tmp_path, pa.string(), "a", "id")
    script = emitted(tmp_path, recipe("id"), monkeypatch)
    place(tmp_path, *ODD[case])
    with pytest.raises(
        SystemExit, match=r"read: chat\.parquet, row 1: `extra` holds .*`ignore = \[\"id\", \"extra\"\]`"
    ):
        script.main()


def reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    parquet.write_table(pa.Table.from_pylist(chats(30)), folder / "chat.parquet")
    return emitted(folder, recipe(), monkeypatch)


@pytest.mark.parametrize("case", PLAIN)
def test_build_and_bundle_read_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    kind, value, meant = PLAIN[case]
    script, file = reading(tmp_path, monkeypatch), tmp_path / "other.parquet"
    parquet.write_table(pa.table({"extra": column_of(kind, value)}), file)
    sample = read_sample([file], "other.parquet", reading=ReadAs(()))
    assert sample is not None and sample.rows[0] == {"extra": meant}
    first = next(script.parquet_rows(file, "other.parquet"))
    assert script.json.loads(first["row"]) == {"extra": meant}
    assert first["place"] == "other.parquet, row 1" == sample.places[0]


def test_an_ignored_field_of_messages_may_be_of_any_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = chats(30)
    for row in rows:
        row["messages"][-1]["sent"] = dt.datetime(2026, 1, 31)
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "chat.parquet")
    (refused,) = said(tmp_path, recipe())
    assert "`sent` in its column `messages` holds values of the type timestamp[us]" in refused
    emitted(tmp_path, recipe("sent"), monkeypatch).main()
    assert len(prepared(tmp_path, "sft/train")) == 24


def test_two_columns_of_one_name_are_refused_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = reading(tmp_path, monkeypatch)
    rows = pa.Table.from_pylist(chats(30))
    twice = pa.Table.from_arrays([rows["messages"], rows["messages"]], names=["messages", "messages"])
    parquet.write_table(twice, tmp_path / "chat.parquet")
    (refused,) = said(tmp_path, recipe())
    assert "several of its columns are named `messages`" in refused
    with pytest.raises(SystemExit, match="several of its columns are named messages"):
        script.main()


def test_rows_are_split_by_a_column_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(tmp_path, pa.timestamp("us"), dt.datetime(2026, 1, 31), "when")
    emitted(tmp_path, with_key(recipe(), "data.split", {"time": "when"}), monkeypatch).main()
    assert len(prepared(tmp_path, "sft/train")) >= 20
