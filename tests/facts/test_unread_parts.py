"""What only the files of data.eval or data.test have, and fields of messages that a recipe ignores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, CHAT, compiled, with_key

from recipec.diagnostics.model import Diagnostic

LORA, PROMPTS = BASES["lora-single"], with_key(BASES["lora-single"], "data.train", "told.jsonl")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CHAT_OF_TWO = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
ROWS = [{"prompt": f"Why {n}?", "completion": f"Because of {n}."} for n in range(8)]


def findings(folder: Path, recipe: dict[str, Any], **files: list[dict[str, Any]]) -> list[Diagnostic]:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code in CODES]


CODES = ("E0308", "E0401", "W0516")


@pytest.mark.parametrize("part", ["eval", "test"])
def test_what_only_held_out_rows_have_is_told_of_them_with_the_key_that_reads_it(tmp_path: Path, part: str) -> None:
    recipe = with_key(LORA, f"data.{part}", "other.jsonl")
    (found,) = findings(tmp_path, recipe, other=[row | {"tools": [TOOL]} for row in CHAT])

    assert found.title == f"the rows of data.{part} have `tools`, which training would leave out"
    assert found.help[0] == 'to read `tools`: `carry = ["tools"]` under [data]'
    place = found.labels[0].place
    line = place.text.splitlines()[place.span.line - 1]
    assert line[place.span.col - 1 : place.span.end_col - 1] == '"other.jsonl"'
    assert not findings(tmp_path, with_key(recipe, "data.carry", ["tools"]))


def test_a_label_that_only_held_out_rows_have_is_refused_there(tmp_path: Path) -> None:
    recipe = with_key(PROMPTS, "data.eval", "other.jsonl")
    (found,) = findings(tmp_path, recipe, told=ROWS, other=[row | {"label": True} for row in ROWS])

    assert (found.code, found.title[:31]) == ("E0308", "the rows of data.eval have `lab")
    assert not any("carry" in help for help in found.help)


def test_what_nothing_reads_is_told_where_it_is(tmp_path: Path) -> None:
    recipe = with_key(LORA, "data.eval", "other.jsonl")
    (found,) = findings(tmp_path, recipe, other=[row | {"id": 1} for row in CHAT])
    assert (found.code, found.title) == ("W0516", "the rows of data.eval have more than training reads")


CALLS = [
    {"role": "user", "content": "What is 2 + 3?"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f"}}]},
    {"role": "tool", "content": "5"},
    {"role": "assistant", "content": "5"},
]


def test_a_field_of_messages_may_be_ignored_and_one_that_none_has_may_not(tmp_path: Path) -> None:
    recipe, rows = with_key(LORA, "data.train", "calls.jsonl"), [{"messages": CALLS} for _ in range(8)]
    assert not findings(tmp_path, with_key(recipe, "data.ignore", ["tool_calls"]), calls=rows)

    (found,) = findings(tmp_path, with_key(recipe, "data.ignore", ["tool_cals"]), calls=rows)
    assert found.title == "`data.ignore` names `tool_cals`, which the rows do not have"


def test_what_reads_fields_of_messages_reads_no_column(tmp_path: Path) -> None:
    """`carry = ["weight"]` is not offered for a column, and does not hide that nothing reads it."""
    recipe, rows = with_key(LORA, "data.train", "calls.jsonl"), [{"messages": CHAT_OF_TWO, "weight": 1}] * 8
    for made in (recipe, with_key(recipe, "data.carry", ["weight"])):
        (found,) = findings(tmp_path, made, calls=rows)
        assert (found.code, "carry = " in " ".join(found.help)) == ("E0308", False)
    weighed = [{"messages": [CHAT_OF_TWO[0], CHAT_OF_TWO[1] | {"weight": 1}]}] * 8
    assert not findings(tmp_path, with_key(recipe, "data.carry", ["weight"]), calls=weighed)


def test_the_column_without_a_name_can_be_ignored(tmp_path: Path) -> None:
    """pandas writes its index so."""
    recipe, rows = with_key(LORA, "data.train", "calls.jsonl"), [{"messages": CHAT_OF_TWO, "": n} for n in range(8)]
    (found,) = findings(tmp_path, recipe, calls=rows)
    assert '`ignore = [""]`' in found.help[0]
    assert not findings(tmp_path, with_key(recipe, "data.ignore", [""]), calls=rows)


def test_a_column_without_a_name_is_described_and_can_be_ignored(tmp_path: Path) -> None:
    lines = [",prompt,completion", *(f"{n},Why {n}?,So {n}." for n in range(40))]
    (tmp_path / "index.csv").write_text("\n".join(lines) + "\n")
    recipe = with_key(LORA, "data.train", "index.csv")
    (found,) = findings(tmp_path, recipe)
    assert found.code == "W0516" and "nothing reads a column without a name" in found.labels[0].message
    assert "to_csv(index=False)" in found.labels[0].message and 'ignore = [""]' in found.help[-1]
    assert not findings(tmp_path, with_key(recipe, "data.ignore", [""]))


PAIRS = [{"prompt": f"Why {n}?", "chosen": f"Because of {n}.", "rejected": "No."} for n in range(8)]


def with_margins(task: str, **keys: object) -> dict[str, Any]:
    recipe = with_key(BASES["reward"], "data.preferences", "rated.jsonl") | {"alignment": keys}
    return with_key(recipe, "goal.task", task)


@pytest.mark.parametrize("lacking", [0, 1, 7])
def test_a_margin_that_some_rows_lack_is_refused_as_one_that_all_have(tmp_path: Path, lacking: int) -> None:
    rows = [row | {"margin": None if n < lacking else 0.5} for n, row in enumerate(PAIRS)]
    (found,) = findings(tmp_path, with_margins("reward"), rated=rows)

    assert (found.code, found.title) == (
        "E0401",
        "data.preferences has a column `margin` that training would leave out",
    )
    assert (f"except for {lacking} of 8 sampled rows" in found.labels[0].message) == bool(lacking)
    recipe = with_key(with_margins("reward"), "data.ignore", ["margin"])
    assert not findings(tmp_path, recipe, rated=rows)


def test_a_margin_is_what_the_trainer_that_runs_makes_of_it_named_or_not(tmp_path: Path) -> None:
    rows = [row | {"margin": 0.5} for row in PAIRS]
    ways = [with_margins("align"), with_margins("align", method="dpo"), with_margins("align", method="auto")]
    told = [[found.code for found in findings(tmp_path, recipe, rated=rows)] for recipe in ways]

    assert told == [["W0516"]] * 3
    assert [found.code for found in findings(tmp_path, with_margins("align", method="ppo"), rated=rows)] == ["E0401"]
