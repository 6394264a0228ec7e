"""Rows and paths that somebody made to hurt, or by a mistake of a script: refused by name, and soon."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from compiling import BASES, CHAT, Tables, compiled, texts, with_key

from recipec.catalog.templates import template_with
from recipec.diagnostics.model import Diagnostic

CHATS = with_key(BASES["lora-single"], "data.train", "rows.jsonl")


SIDES = ("chosen", "rejected")
_LISTS = ("COLUMNS", "FIELDS")  # of prepare_data.py


def findings(folder: Path, recipe: Tables, lines: list[str]) -> list[Diagnostic]:
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code != "W0522"]


def rows_with(columns: dict[str, Any], fields: dict[str, Any] | None = None) -> list[str]:
    question, answer = CHAT[0]["messages"]
    return [json.dumps({"messages": [question | (fields or {}), answer], **columns})] * 8


@pytest.mark.parametrize("place", ["columns", "fields"])
def test_wide_rows_are_told_in_a_time_that_grows_with_them(tmp_path: Path, place: str) -> None:
    def seconds(count: int) -> float:
        names = {f"c{number}": 1 for number in range(count)}
        lines = rows_with(names) if place == "columns" else rows_with({}, names)
        began = process_time()
        (found,) = findings(tmp_path, CHATS, lines)
        assert found.code == "W0516" and f"and {count - 12:,} more" in str(found.labels[0].message)
        return process_time() - began

    many, few = (min(seconds(count) for _ in range(3)) for count in (8_000, 2_000))  # a pause is no work
    assert many < 12 * max(few, 0.05), "four times the names, and no sixteen times the work"


def test_wide_rows_of_no_format_are_told_soon(tmp_path: Path) -> None:
    began = process_time()
    (found,) = findings(tmp_path, CHATS, [json.dumps({f"prompt {n} answer": "a" for n in range(5_000)})])
    assert found.code == "E0305" and process_time() - began < 20


@pytest.mark.parametrize(("name", "code"), [("a\x07b", "U+0007"), ("\ue000", "U+E000"), ("\u202e", "U+202E")])
@pytest.mark.parametrize("place", ["columns", "fields"])
def test_names_that_no_file_can_hold_are_refused(tmp_path: Path, place: str, name: str, code: str) -> None:
    lines = rows_with({name: 1}) if place == "columns" else rows_with({}, {name: 1})
    (found,) = findings(tmp_path, CHATS, lines)
    assert (found.code, found.title) == ("E0304", "`rows.jsonl:1` cannot be used")
    assert f"holds the forbidden character {code}" in str(found.labels[0].message)


@pytest.mark.parametrize("path", ["/**/*.jsonlx", "/*/**/*.jsonlx", "../../../../../../../../../../**/*.jsonlx"])
def test_a_glob_of_the_whole_machine_is_refused(tmp_path: Path, path: str) -> None:
    (found,) = findings(tmp_path, with_key(CHATS, "data.train", path), [])
    assert (found.code, found.title) == ("E0303", f"`{path}` names files in every folder of this machine")


def test_a_glob_below_a_folder_is_read(tmp_path: Path) -> None:
    assert not findings(tmp_path, with_key(CHATS, "data.train", "**/rows.jsonl"), rows_with({}))


def test_a_number_of_too_many_digits_is_told_in_plain_words(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, CHATS, ['{"messages": [], "n": ' + "1" * 5_000 + "}"])
    assert "a whole number of more than 4,300 digits" in str(found.labels[0].message)
    assert "sys." not in str(found)


def test_half_a_character_in_a_template_is_one_that_no_source_has() -> None:
    assert template_with("{{ messages }} \ud800") is None


def test_what_is_carried_and_ignored_is_refused(tmp_path: Path) -> None:
    recipe = with_key(with_key(CHATS, "data.carry", ["weight"]), "data.ignore", ["weight", "train", "loss"])
    titles = [found.title for found in findings(tmp_path, recipe, rows_with({}))]
    assert '`data.carry` has "weight", all of whose names `data.ignore` passes over' in titles


def test_what_one_stage_passes_over_is_none_of_another(tmp_path: Path) -> None:
    """A column of the conversations would vanish from the pairs, and a field of theirs from the others."""
    compiled(tmp_path, BASES["lora-single"])
    rows = [row | {"topic": "a"} for row in CHAT]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sides = {side: [CHAT[0]["messages"][0] | {"mood": 1}, {"role": "assistant", "content": side}] for side in SIDES}
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(sides) + "\n" for _ in range(8)))
    scope: dict[str, Any] = {}
    tree = ast.parse(texts(compiled(tmp_path, BASES["sft-dpo"]))["prepare_data.py"])
    tree.body = [node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id in _LISTS]
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    assert "topic" in scope["COLUMNS"]["chat"] and "topic" not in scope["COLUMNS"]["preference"]
    assert "mood" in scope["FIELDS"]["preference"] and "mood" not in scope["FIELDS"]["chat"]
