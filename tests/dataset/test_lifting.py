"""Columns that stand in objects are brought to the top of a row by what is printed, followed to the letter."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

TALK = [{"role": "user", "content": "Why {}?"}, {"role": "assistant", "content": "So {}."}]
PAIR = {"prompt": "Why {}?", "chosen": "So {}.", "rejected": "No {}."}
ROWS = {
    "two texts": ("train", {"data": {"question": "Why {}?", "answer": "So {}."}}),
    "texts beside others": ("train", {"id": "{}", "data": {"question": "Why {}?", "answer": "So {}.", "lang": "en"}}),
    "texts of other names": ("train", {"id": "{}", "data": {"ask": "Why {}?", "reply": "So {}.", "lang": "en"}}),
    "a conversation": ("train", {"id": "{}", "data": {"messages": TALK}}),
    "turns": ("train", {"id": "{}", "conversation": {"id": "{}", "turns": TALK}}),
    "two objects deep": ("train", {"id": "{}", "a": {"b": {"messages": TALK}}}),
    "the name of its own object": ("train", {"messages.0": {"x": "{}"}, "data": {"data": "{}", "messages": TALK}}),
    "pairs": ("preferences", {"row": PAIR}),
}


def told(folder: Path, section: str, file: str, columns: dict[str, str] | None) -> list[Diagnostic]:
    data = {section: file, "max_length": 64, **({"columns": columns} if columns else {})}
    base = with_key(BASES["lora-single"], "goal.task", "align") if section == "preferences" else BASES["lora-single"]
    recipe = with_key(base, "data", data)
    return [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code[0] == "E"]


def write(folder: Path, row: dict[str, Any], number: int = 30) -> None:
    text = (json.dumps(row).replace("{}", str(n)) for n in range(number))
    (folder / "rows.jsonl").write_text("\n".join(text))


@pytest.mark.parametrize("columns", [None, {"prompt": "data.question", "completion": "data.answer"}])
@pytest.mark.parametrize("kind", ROWS)
def test_what_is_printed_brings_the_columns_to_the_top(
    tmp_path: Path, kind: str, columns: dict[str, str] | None
) -> None:
    section, row = ROWS[kind]
    if columns and "question" not in row.get("data", {}):
        pytest.skip("the recipe names no column within this object")
    write(tmp_path, row)
    (found,) = told(tmp_path, section, "rows.jsonl", columns)
    assert found.help[0].startswith("columns are read at the top level of a row")
    command = re.findall("`((?:python3|jq) .*)`", "\n".join(found.help))[0]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    assert {*first} >= {*row} - {"data", "a", "row"}
    renamed = next(iter(re.findall(r"`(columns = \{.*?\})`", "\n".join(found.help[1:]))), "columns = {}")
    assert not told(tmp_path, section, "rows.new.jsonl", tomllib.loads(renamed)["columns"])


SYSTEM, TOOLS = "You are pirate {}.", [{"type": "function", "function": {"name": "f", "parameters": {}}}]
OUTER = {"system": SYSTEM, "tools": TOOLS, "id": "{}"}


@pytest.mark.parametrize(
    "row",
    [
        {"a": {**OUTER, "b": {"messages": TALK}}},
        {"system": SYSTEM, "a": {"tools": TOOLS, "b": {"id": "{}", "messages": TALK}}},
        {"id": "{}", "a": {"system": SYSTEM, "b": {"tools": TOOLS, "c": {"messages": TALK}}}},
        {"a": {**OUTER, "data": {"messages": TALK, "system": SYSTEM}}},
    ],
    ids=["beside the inner", "on all levels", "three levels", "the same twice"],
)
def test_what_stands_beside_an_inner_object_stays(tmp_path: Path, row: dict[str, Any]) -> None:
    write(tmp_path, row)
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    subprocess.run(["bash", "-c", found.help[0].split("`")[-2]], cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    text = json.dumps({**OUTER, "messages": TALK})
    assert made == [json.loads(text.replace("{}", str(n))) for n in range(30)]
    assert not told(tmp_path, "train", "rows.new.jsonl", None)


@pytest.mark.parametrize("inner", [None, "", "Be brief."])
def test_columns_that_would_lose_one_of_two_values_are_named(tmp_path: Path, inner: str | None) -> None:
    write(tmp_path, {"system": SYSTEM, "data": {"system": inner, "messages": TALK}})
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    assert "first rename or remove `system`" in found.help[0] and "python3" not in "".join(found.help)


def test_a_list_of_messages_leaves_its_object_with_what_stands_beside_it(tmp_path: Path) -> None:
    write(tmp_path, {"id": "row {}", "lang": "en", "conversation": {"id": "{}", "lang": "en", "at": 7, "turns": TALK}})
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    command = re.findall("`(jq .*)`", "\n".join(found.help))[0]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    talk = json.loads(json.dumps(TALK).replace("{}", "0"))
    assert first == {"id": "row 0", "lang": "en", "conversation_id": "0", "at": 7, "conversation": talk}


def test_a_column_with_the_name_of_the_list_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"turns": 2, "conversation": {"at": 7, "turns": TALK}})
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    command = re.findall("`(jq .*)`", "\n".join(found.help))[0]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    assert first == {"turns": 2, "at": 7, "conversation": json.loads(json.dumps(TALK).replace("{}", "0"))}


def test_columns_that_are_not_read_take_the_name_of_their_object(tmp_path: Path) -> None:
    write(tmp_path, {"id": "row {}", "lang": "en", "data": {"id": "{}", "lang": "en", "messages": TALK}})
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    assert "there, `id` as `data_id`: " in found.help[0]
    subprocess.run(["bash", "-c", found.help[0].split("`")[-2]], cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    talk = json.loads(json.dumps(TALK).replace("{}", "0"))
    assert first == {"id": "row 0", "lang": "en", "data_id": "0", "messages": talk}


@pytest.mark.parametrize(
    "row",
    [
        {"id": "row {}", "data_id": "other {}", "data": {"id": "{}", "messages": TALK}},
        {"id": "row {}", "a": {"id": "{}", "b": {"messages": TALK}}},
    ],
    ids=["taken", "two deep"],
)
def test_other_columns_in_two_places_are_the_users_to_rename(tmp_path: Path, row: dict[str, Any]) -> None:
    write(tmp_path, row)
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    assert any("first rename or remove" in line for line in found.help)


def test_no_program_chooses_between_two_system_prompts(tmp_path: Path) -> None:
    write(tmp_path, {"system": SYSTEM, "conversation": {"system": "Be brief.", "turns": TALK}})
    (found,) = told(tmp_path, "train", "rows.jsonl", None)
    assert "jq" not in "".join(found.help)


def test_objects_without_columns_of_a_format_are_not_lifted(tmp_path: Path) -> None:
    write(tmp_path, {"id": "{}", "meta": {"lang": "en", "size": 3, "kind": "x"}, "other": 5})
    assert not any("top level" in line for one in told(tmp_path, "train", "rows.jsonl", None) for line in one.help)
