"""What prepare_data.py holds out: whole conversations, groups and prompts, filled up to the share that was planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, good, with_key
from test_prepare_data import chats, emitted, pairs, prepared, write

pytestmark = pytest.mark.executes

PARTS = ("train", "eval", "test")
UNMARKED = "meta-llama/Llama-3.2-1B-Instruct"  # TRL has no training version of its template


def conversations(count: int, turns: int) -> list[dict[str, Any]]:
    said = (("user", "Question {} of {}?"), ("assistant", "Answer {} of {}."))
    return [
        {"messages": [{"role": r, "content": t.format(turn, n)} for turn in range(turns) for r, t in said]}
        for n in range(count)
    ]


def unmarked() -> Tables:
    return with_key(with_key(BASES["lora-single"], "model.name", UNMARKED), "data.examples", 200)


def split_of(folder: Path, stage: str = "sft") -> dict[str, list[dict[str, Any]]]:
    return {part: prepared(folder, f"{stage}/{part}") for part in PARTS}


def test_no_conversation_is_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", conversations(200, 10))
    emitted(tmp_path, unmarked(), monkeypatch).main()
    found = {
        part: {row["completion"][0]["content"].rpartition(" of ")[2] for row in rows}
        for part, rows in split_of(tmp_path).items()
    }
    assert all(found.values())
    assert not found["train"] & (found["eval"] | found["test"]) and not found["eval"] & found["test"]
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 1600, "eval": 200, "test": 200}


@pytest.mark.parametrize("key", ["time", "stratify"])
def test_a_column_that_splits_keeps_conversations_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    rows = [row | {"at": n % 3} for n, row in enumerate(conversations(100, 7))]
    write(tmp_path / "chat.jsonl", rows)
    emitted(tmp_path, with_key(unmarked(), f"data.split.{key}", "at"), monkeypatch).main()
    found = {
        part: {row["completion"][0]["content"].rpartition(" of ")[2] for row in rows}
        for part, rows in split_of(tmp_path).items()
    }
    assert not found["train"] & (found["eval"] | found["test"]) and not found["eval"] & found["test"]


def test_the_plan_counts_the_answers_of_conversations(tmp_path: Path) -> None:
    write(tmp_path / "chat.jsonl", conversations(100, 10))
    decided = good(tmp_path, unmarked()).plan.stages[0].decisions
    assert decided["loss_on"].value == "completion"
    assert decided["examples"].value == 2000
    assert "10 answers in each of 200 conversations" in decided["examples"].because
    whole = good(tmp_path, with_key(unmarked(), "model.name", "Qwen/Qwen3-8B")).plan.stages[0].decisions
    assert decided["tokens_per_example"].value < whole["tokens_per_example"].value


def test_whole_groups_fill_the_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One group of 900 rows and thirty of ten: a tenth of the rows is a dozen small groups, never the large one."""
    rows = [row | {"of": 0 if n < 900 else 1 + n // 10} for n, row in enumerate(chats(1200))]
    write(tmp_path / "chat.jsonl", rows)
    emitted(tmp_path, with_key(BASES["lora-single"], "data.split.group", "of"), monkeypatch).main()
    groups = {part: {row["of"] for row in rows} for part, rows in split_of(tmp_path).items()}
    assert not groups["train"] & groups["test"] and not groups["train"] & groups["eval"]
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 960, "eval": 120, "test": 120}


def test_a_single_group_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", [row | {"of": 1} for row in chats(50)])
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.split.group", "of"), monkeypatch)
    with pytest.raises(SystemExit, match="all rows have the same of: none can be held out"):
        script.main()


def test_a_single_prompt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = emitted(tmp_path, BASES["dpo-full"], monkeypatch)
    write(tmp_path / "pairs.jsonl", [row | {"prompt": "Why?"} for row in pairs(50)])
    with pytest.raises(SystemExit, match="all rows have the same prompt"):
        script.main()


def test_several_processes_make_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    script = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    assert script.processes(range(4_999)) == 0
    script.main()
    alone = split_of(tmp_path)
    monkeypatch.setattr(script, "processes", lambda _: 2)
    (tmp_path / "data" / "prepared.json").unlink()
    script.main()
    assert split_of(tmp_path) == alone


def test_a_row_that_one_of_several_processes_cannot_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    rows = chats(60)
    rows[50]["messages"][0]["role"] = "narrator"
    write(tmp_path / "chat.jsonl", rows)
    monkeypatch.setattr(script, "processes", lambda _: 2)
    with pytest.raises(SystemExit, match=r"chat\.jsonl, row 51: this message is not of the system"):
        script.main()
