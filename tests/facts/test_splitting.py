"""Rows that cannot be split as the recipe says are refused from the sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.facts.splitting import as_text


def chats(count: int, **column: Any) -> list[dict[str, Any]]:
    said = [("user", "Why {}?"), ("assistant", "Because.")]
    return [{"messages": [{"role": r, "content": t.format(n)} for r, t in said], **column} for n in range(count)]


def told(folder: Path, split: dict[str, str], **files: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data.train", [f"{name}.jsonl" for name in files])
    found = compiled(folder, with_key(recipe, "data.split", split)).diagnostics
    return [(one.code, one.title, one.labels[0].message) for one in found if one.code[0] == "E"]


def test_a_source_of_a_mix_without_the_column_is_named(tmp_path: Path) -> None:
    ((code, title, said),) = told(tmp_path, {"group": "user"}, chat=chats(30, user=1), other=chats(30))
    assert (code, said) == ("E0401", "no sampled row of other.jsonl has it")
    assert title == "`data.split.group` names the column `user`, which other.jsonl of data.train does not have"


@pytest.mark.parametrize(
    ("key", "value"), [("group", None), ("group", " "), ("stratify", None), ("time", "soon"), ("time", True)]
)
def test_a_row_without_a_value_to_split_by_is_named(tmp_path: Path, key: str, value: object) -> None:
    rows = [*chats(25, by=2026), *chats(1, by=value)]
    assert [(code, title) for code, title, _ in told(tmp_path, {key: "by"}, chat=rows)] == [
        ("E0304", "`chat.jsonl:26` cannot be used")
    ]


@pytest.mark.parametrize(("values", "refused"), [(40, True), (38, True), (37, False), (3, False)])
def test_classes_of_one_row_each_are_refused(tmp_path: Path, values: int, refused: bool) -> None:
    rows = [row | {"topic": min(n, values - 1)} for n, row in enumerate(chats(40))]
    found = told(tmp_path, {"stratify": "topic"}, chat=rows)
    assert [said for *_, said in found] == [f"{values} values in 40 sampled rows"] * refused


def test_numbers_and_their_texts_are_one_class(tmp_path: Path) -> None:
    rows = [row | {"topic": n // 2 if n % 2 else str(n // 2)} for n, row in enumerate(chats(40))]
    assert told(tmp_path, {"stratify": "topic"}, chat=rows) == []
    assert [as_text(value) for value in (3, 3.0, "3.0 ", True, 2**70, [3], "03", "e\u0301 ", " ")] == [
        "3", "3", "3", "true", str(2**70), "[3]", "03", "\u00e9", "",
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["group", "stratify", "time"])
def test_a_source_that_is_not_read_may_be_split(tmp_path: Path, key: str) -> None:
    recipe = with_key(BASES["lora-single"], "data.train", {"hub": "org/rows"})
    recipe = with_key(with_key(recipe, "data.format", "chat"), "data.split", {key: "by"})
    assert [one.code for one in compiled(tmp_path, recipe).diagnostics if one.code[0] == "E"] == []
    stated = with_key(with_key(recipe, "data.train", "elsewhere.jsonl"), "data.examples", 900)
    stated = with_key(stated, "data.tokens_per_example", 300)
    assert [one.code for one in compiled(tmp_path, stated).diagnostics if one.code[0] == "E"] == []


@pytest.mark.parametrize(("key", "value"), [("group", ""), ("stratify", None), ("time", None)])
def test_the_key_that_leaves_rows_without_a_value_out_is_offered(tmp_path: Path, key: str, value: object) -> None:
    rows = [*chats(25, by=2026), *chats(1, by=value)]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "chat.jsonl"), "data.split", {key: "by"})
    (found,) = [one for one in compiled(tmp_path, recipe).diagnostics if one.code == "E0304"]
    assert found.help[0] == 'to leave such rows out, counted: `incomplete = "skip"` under [data]'
