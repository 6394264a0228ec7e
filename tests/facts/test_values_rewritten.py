"""Columns that rows are split or ordered by: what cannot be read is refused with a command that rewrites it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

SPLIT_TIME, GROUP, STRATIFY = ("data.split.time", "data.split.group", "data.split.stratify")
ORDER = "train.curriculum.column"


def refused(folder: Path, key: str, file: str, column: str = "of") -> list[Diagnostic]:
    recipe = with_key(with_key(BASES["lora-single"], key, column), "data.train", file)
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code == "E0304"]


def written(folder: Path, values: Sequence[Any], kind: str = "jsonl") -> str:
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "of": value} for n, value in enumerate(values)]
    with (folder / f"rows.{kind}").open("w", newline="") as file:
        if kind == "csv":
            out = csv.DictWriter(file, rows[0])
            out.writeheader()
            out.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return f"rows.{kind}"


def values_after(folder: Path, help: str, kind: str) -> list[Any]:
    subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", help)[0]], cwd=folder, check=True)
    csv.field_size_limit(2**22)
    with (folder / f"rows.new.{kind}").open(newline="") as file:
        rows = csv.DictReader(file) if kind == "csv" else map(json.loads, file)
        return [row["of"] for row in rows]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize(
    ("key", "values", "first"),
    [
        (SPLIT_TIME, ["08.09.2024", "31.10.2024"], "2024-09-08T00:00:00"),
        (SPLIT_TIME, ["9/8/2024", "10/31/2024"], "2024-09-08T00:00:00"),
        (SPLIT_TIME, ["Sep 08, 2024 07:05", "Oct 31, 2024 12:00"], "2024-09-08T07:05:00"),
        (SPLIT_TIME, ["Mar 2024", "Oct 2024"], "2024-03-01T00:00:00"),
        (SPLIT_TIME, ["Q3 2024", "Q1 2025"], "2024-07"),
        (SPLIT_TIME, ["2024-Q4", "2025q1"], "2024-10"),
        (SPLIT_TIME, ["2024-W5", "2024-W12"], "2024-W05"),
        (SPLIT_TIME, ["week 12, 2024", "KW 5/2025"], "2024-W12"),
        (ORDER, ["easy", "hard", "medium"], 1),
        (ORDER, ["2,5", "1"], 2.5),
        (ORDER, ["1,011.5", "20"], 1011.5),
    ],
    ids=[
        *("dots", "slashes", "months", "months alone", "quarters", "years before", "weeks", "weeks in words"),
        *("words", "commas", "thousands"),
    ],
)
def test_values_are_rewritten_by_a_command(
    tmp_path: Path, kind: str, key: str, values: list[str], first: float | str
) -> None:
    file = written(tmp_path, values * 20, kind)
    (found,) = refused(tmp_path, key, file)
    (help,) = found.help
    assert values_after(tmp_path, help, kind)[0] == (str(first) if kind == "csv" else first)
    assert not refused(tmp_path, key, f"rows.new.{kind}")


def test_days_and_months_that_may_be_either_are_rewritten_as_the_reader_says(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, SPLIT_TIME, written(tmp_path, ["9/8/2024", "1/2/2023"] * 20))
    said = [line.split(",")[0] for line in found.help]
    assert said == ["if '9/8/2024' is 2024-09-08", "if '9/8/2024' is 2024-08-09"]
    assert [values_after(tmp_path, line, "jsonl")[0][:10] for line in found.help] == ["2024-09-08", "2024-08-09"]


def test_commas_before_three_digits_are_rewritten_as_the_reader_says(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, ORDER, written(tmp_path, ["1,011", "20", "12,500"] * 10))
    said = [line.split(": ")[0] for line in found.help]
    assert said == [
        "if '1,011' is 1011, rewrite thousands separators",
        "if '1,011' is 1.011, rewrite decimal commas",
    ]
    assert [values_after(tmp_path, line, "jsonl")[0] for line in found.help] == [1011, 1.011]


def test_numbers_beside_gaps_have_no_commas_to_rewrite(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, ORDER, written(tmp_path, [3, None] * 20))
    assert [line.split(" `")[0] for line in found.help] == ["to leave rows without a value in"]


def test_what_is_no_date_gets_no_command(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, SPLIT_TIME, written(tmp_path, ["spring 2024", "Q4 2024"] * 20))
    assert found.help == ("write every time as a number, or as a date as in 2026-01-31 or 2026-01",)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize(("key", "value"), [(SPLIT_TIME, "2026-01-31"), (GROUP, "a"), (ORDER, 3)])
def test_rows_without_a_value_are_left_out_by_a_command(tmp_path: Path, kind: str, key: str, value: Any) -> None:
    (found,) = refused(tmp_path, key, written(tmp_path, [value, None, value, value] * 10, kind))
    (command,) = [line for line in found.help if "to leave rows without a value" in line]
    assert len(values_after(tmp_path, command, kind)) == 30
    assert not refused(tmp_path, key, f"rows.new.{kind}")


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_rows_of_no_group_can_each_be_one(tmp_path: Path, kind: str) -> None:
    (found,) = refused(tmp_path, GROUP, written(tmp_path, ["a", None, "b", None] * 10, kind))
    assert values_after(tmp_path, found.help[2], kind)[:4] == ["a", "row 2", "b", "row 4"]
    assert not refused(tmp_path, GROUP, f"rows.new.{kind}")


@pytest.mark.parametrize(("key", "column"), [(STRATIFY, "of"), (STRATIFY, "completion"), (GROUP, "completion")])
def test_classes_and_learned_columns_get_no_values_of_their_own(tmp_path: Path, key: str, column: str) -> None:
    file = written(tmp_path, ["a", None, "b"] * 10)
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace('"So 1."', '""'))
    found = refused(tmp_path, key, file, column)
    lines = [line for one in found for line in one.help]
    assert any("without a value" in line for line in lines)
    assert not any("of its own" in line for line in lines)


def test_fields_that_are_longer_than_csv_takes_are_rewritten(tmp_path: Path) -> None:
    file = written(tmp_path, ["a", None, "b"] * 10, "csv")
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace("So 0.", "So. " * 50_000))
    (found,) = refused(tmp_path, GROUP, file)
    assert values_after(tmp_path, found.help[2], "csv")[:3] == ["a", "row 2", "b"]


def test_the_group_zero_stays_together(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, GROUP, written(tmp_path, [0, None, 1, ""] * 10))
    assert values_after(tmp_path, found.help[2], "jsonl")[:5] == [0, "row 2", 1, "row 4", 0]


@pytest.mark.parametrize("date", ["2024-9-8", "2024-09", "2024-09-08 00:00:00 UTC", "2024-9-8T07:00", "2024-W36"])
def test_dates_that_say_one_thing_are_read(tmp_path: Path, date: str) -> None:
    assert not refused(tmp_path, SPLIT_TIME, written(tmp_path, [date, "2023-01-31"] * 20))


@pytest.mark.parametrize("field", ["value", "content"])
@pytest.mark.parametrize(
    ("said", "what", "text"),
    [
        (["a", "b"], "lists", '["a", "b"]'),
        ([1, {"type": "text", "text": "b"}], "lists", '[1, {"type": "text", "text": "b"}]'),
        ({"a": 1}, "objects", '{"a": 1}'),
        (0.50, "numbers", "0.5"),
        (True, "true and false", "true"),
    ],
    ids=["list", "mixed list", "object", "number", "flag"],
)
def test_what_a_message_says_is_written_as_text_by_a_command(
    tmp_path: Path, field: str, said: Any, what: str, text: str
) -> None:
    """Texts in parts stay as they are; what is said in none of these ways is one text."""
    who = {"value": ("from", "human", "gpt"), "content": ("role", "user", "assistant")}[field]
    parts = "So." if field == "value" else [{"type": "text", "text": "So."}]
    rows = [[{who[0]: who[1], field: f"Why {n}?"}, {who[0]: who[2], field: parts}] for n in range(20)]
    rows[7][1][field] = said
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"conversations": row}) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data.train", "rows.jsonl")
    (found,) = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code == "E0304"]
    help = found.help[-1]
    assert help.startswith(f"write {what} as text: `python3 -c ")
    subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", help)[0]], cwd=tmp_path, check=True)
    written = [json.loads(line)["conversations"] for line in (tmp_path / "rows.new.jsonl").open()]
    assert written[7][1][field] == text
    rows[7][1][field] = text
    assert written == rows
    again = compiled(tmp_path, with_key(recipe, "data.train", "rows.new.jsonl"), only_plan=True).diagnostics
    assert not [one for one in again if one.code.startswith("E")]


def test_parts_that_are_images_are_not_written_as_text(tmp_path: Path) -> None:
    image = [{"type": "image", "url": "x.png"}]
    rows = [[{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "So."}] for n in range(20)]
    rows[7][0]["content"] = image
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data.train", "rows.jsonl")
    (found,) = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code == "E0304"]
    assert not any("as text" in line for line in found.help)
