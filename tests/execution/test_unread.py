"""What rows hold beside what is read: every row of the files is held to what the recipe was told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, with_key
from test_prepare_data import chats, emitted, pairs, prepared, write

pytestmark = pytest.mark.executes


def with_fields(message: dict[str, Any], count: int = 30) -> list[dict[str, Any]]:
    """Conversations of which the last has these fields in its answer."""
    rows = chats(count)
    rows[-1]["messages"][-1] |= message
    return rows


@pytest.mark.parametrize("fields", [{"weight": 0}, {"reasoning_content": "Hm."}, {"name": "Ann"}], ids=str)
def test_a_field_behind_the_sample_is_refused_with_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    write(tmp_path / "chat.jsonl", with_fields(fields))
    with pytest.raises(SystemExit, match=rf"chat\.jsonl, line 30: nothing reads {next(iter(fields))}"):
        script.main()


def test_a_column_behind_the_sample_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    write(tmp_path / "chat.jsonl", [*chats(30), chats(31)[-1] | {"tools": ["add"]}])
    with pytest.raises(SystemExit, match=r"line 31: nothing reads tools of this row; .*`ignore = \[\"tools\"\]` under"):
        script.main()


def test_the_whole_line_that_passes_over_columns_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of the Hub is not read when a recipe is compiled: its columns are met here."""
    recipe = with_key(with_key(BASES["cpu"], "data.train", [{"hub": "org/rows"}]), "data.format", "chat")
    script = emitted(tmp_path, with_key(recipe, "data.ignore", ["id"]), monkeypatch)
    rows = [row | {"id": 7, "source": "web", "score": 0.5} for row in chats(30)]
    monkeypatch.setattr(script, "load_dataset", lambda *_, **__: script.Dataset.from_list(rows))
    monkeypatch.setattr(script, "hub_commit", lambda _: "of now")
    with pytest.raises(SystemExit, match=r"`ignore = \[\"id\", \"source\", \"score\"\]` under \[data\]"):
        script.main()


@pytest.mark.parametrize("take", [{}, {"take": 25}], ids=str)
def test_columns_on_the_hub_are_told_at_once_and_before_rows_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: dict[str, int]
) -> None:
    """Those of all stages, also where the first rows have nothing in them; what is empty everywhere says nothing."""
    odd = {"chats": chats(30), "pairs": pairs(30)}
    for name, rows in odd.items():
        (tmp_path / "org" / name).mkdir(parents=True)  # stands in for the Hub's: the library looks here first
        late = [row | {"empty": "", f"{name}_id": None if n < 5 else n} for n, row in enumerate(rows)]
        write(tmp_path / "org" / name / "train.jsonl", late)
    recipe = BASES["sft-dpo"]
    for key, name, format in (("train", "chats", "chat"), ("preferences", "pairs", "preference")):
        recipe = with_key(recipe, f"data.{key}", [{"hub": f"org/{name}", "format": format, **take}])
    script = emitted(tmp_path, recipe, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script, "prepare", lambda *_: pytest.fail("rows are prepared"))
    with pytest.raises(SystemExit) as told:
        script.main()
    assert str(told.value).startswith("nothing reads chats_id, pairs_id of org/chats and org/pairs; ")
    assert '`ignore = ["chats_id", "pairs_id"]` under [data]' in str(told.value)


def test_a_field_without_a_value_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    write(tmp_path / "chat.jsonl", with_fields({"tool_calls": None, "reasoning_content": ""}))
    script.main()
    assert len(prepared(tmp_path, "sft/train")) == 24


def test_a_column_that_is_empty_everywhere_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", [row | {"tools": None, "system": ""} for row in chats(30)])
    emitted(tmp_path, BASES["cpu"], monkeypatch).main()
    assert prepared(tmp_path, "sft/train")[0].keys() == {"messages", "length"}


def test_what_the_recipe_ignores_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["id", "weight"]
    recipe = with_key(with_key(BASES["cpu"], "data.train", [{"hub": "org/rows"}]), "data.format", "chat")
    script = emitted(tmp_path, with_key(recipe, "data.ignore", names), monkeypatch)
    rows = [row | {"id": place} for place, row in enumerate(with_fields({"weight": 0}))]
    write(tmp_path / "chat.jsonl", rows)
    monkeypatch.setattr(script, "load_dataset", lambda *_, **__: script.Dataset.from_list(rows))
    monkeypatch.setattr(script, "hub_commit", lambda _: "of now")
    written, seen = script.written, []
    monkeypatch.setattr(script, "written", lambda row, place: seen.append({*row}) or written(row, place))
    script.main()
    assert seen == [{"messages"}] * 30, "what is ignored is not even decoded"
    kept = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    assert len(kept) == 30
    assert {name for row in kept for name in row} == {"messages", "length"}
    assert all(turn.keys() == {"role", "content"} for row in kept for turn in row["messages"])


def test_an_input_that_comes_after_the_sample_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"instruction": f"Count to {n}.", "output": f"One to {n}."} for n in range(40)]
    script = emitted(tmp_path, BASES["lora-ddp"], monkeypatch)
    write(tmp_path / "instructions.jsonl", [*rows, {"instruction": "Add.", "input": "1 and 2", "output": "3"}])
    script.main()
    kept = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    assert "Add.\n\n1 and 2" in [row["prompt"][0]["content"] for row in kept]


def test_a_column_of_another_stage_is_refused_behind_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chosen` is read where preferences are learned, and would be lost beside a conversation."""
    write(tmp_path / "chat.jsonl", chats(30))
    write(tmp_path / "pairs.jsonl", pairs(30))
    script = emitted(tmp_path, BASES["sft-dpo"], monkeypatch)
    write(tmp_path / "chat.jsonl", [*chats(30), chats(31)[-1] | {"chosen": "lost"}])
    with pytest.raises(SystemExit, match=r"chat\.jsonl, line 31: nothing reads chosen"):
        script.main()
