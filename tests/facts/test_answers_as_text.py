"""Answers that are numbers, objects or lists become text by a command that keeps every number as it is written."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

NUMBERS = ["123456789012345673", "12.0", "1.10", "1e5", "true"]  # as they stand in the file


def errors(folder: Path, file: str) -> list[Diagnostic]:
    recipe = with_key(BASES["lora-single"], "data", {"train": file, "max_length": 64})
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code[0] == "E"]


def rewritten(folder: Path, file: str) -> list[dict[str, Any]]:
    """The rows that the first command of the help writes; they are taken."""
    (found,) = errors(folder, file)
    command = next(found[1] for line in found.help if (found := re.search("`((?:jq|python3) .*?)`", line)))
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    written = command.rpartition("> ")[2]
    assert not errors(folder, written)
    return [json.loads(line) for line in (folder / written).read_text().splitlines()]


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize("talk", [False, True])
def test_numbers_keep_every_digit_and_other_columns_stay(tmp_path: Path, kind: str, talk: bool) -> None:
    answer = '"messages": [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": %s}]'
    row = '{"id": 123456789012345671, %s}' % (answer if talk else '"question": "How many?", "answer": %s')
    rows = [row % number for number in NUMBERS * 8]
    text = "\n".join([*rows, ""]) if kind == "jsonl" else f"[{','.join(rows)}]"
    (tmp_path / f"rows.{kind}").write_text(text)
    written = rewritten(tmp_path, f"rows.{kind}")
    assert [row["messages"][1]["content"] if talk else row["answer"] for row in written[:5]] == NUMBERS
    assert {row["id"] for row in written} == {123456789012345671}


def test_numbers_of_parquet_become_text(tmp_path: Path) -> None:
    table = pytest.importorskip("pyarrow").Table.from_pylist(
        [{"question": f"{n}?", "answer": 123456789012345673 + n} for n in range(40)]
    )
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "rows.parquet")
    assert rewritten(tmp_path, "rows.parquet")[0]["answer"] == "123456789012345673"


OBJECTS = [
    {"total": 12.5, "items": [{"sku": "S1", "n": 2}], "paid": True},
    {"total": 12.5},
    [{"role": "PER", "text": "Anna"}, {"role": "LOC", "text": "Größenau"}],
    [{"name": "Anna", "type": "PER"}],
    ["Berlin", "Paris"],
    [1, 2],
]


@pytest.mark.parametrize("answer", OBJECTS, ids=["with a list", "object", "roles", "records", "texts", "numbers"])
@pytest.mark.parametrize("columns", [("prompt", "completion"), ("instruction", "output")])
def test_an_answer_that_is_an_object_or_a_list_is_written_whole(
    tmp_path: Path, answer: Any, columns: tuple[str, str]
) -> None:
    rows = [dict(zip(columns, (f"Read {n}.", answer), strict=True)) for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = errors(tmp_path, "rows.jsonl")
    assert found.help[0].startswith("write ") and not any("asks and" in line or " |= ." in line for line in found.help)
    written = rewritten(tmp_path, "rows.jsonl")[0][columns[1]]
    assert json.loads(written) == answer and r"\u" not in written


@pytest.mark.parametrize("odd", [12.5, {"total": 1}, ["Berlin"]], ids=["number", "object", "texts"])
def test_lists_of_messages_stay_where_other_rows_have_no_text(tmp_path: Path, odd: Any) -> None:
    said = [{"role": "assistant", "content": "So."}]
    rows = [{"prompt": f"Why {n}?", "completion": said if n < 39 else odd} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    written = [row["completion"] for row in rewritten(tmp_path, "rows.jsonl")]
    assert written[:39] == [said] * 39 and json.loads(written[39]) == odd


def test_a_conversation_in_an_object_is_still_taken_out(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    rows = [{"conversation": {"id": 2**60 + n, "messages": turns}} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = errors(tmp_path, "rows.jsonl")
    assert ".conversation |= .messages'" in found.help[0]
    assert found.help[0].endswith(f"(with jq 1.7 or later: earlier ones round numbers such as {2**60})")
