"""Conversations that begin as held-out ones do: those to train on are counted, those for evaluation keep the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from test_leaks import recipe, report_of
from test_prepare_data import chats, emitted, write
from test_splits import UNMARKED, answered_in_turns, split_of

pytestmark = pytest.mark.executes

HELD_OUT_BY: dict[str, dict[str, Any]] = {
    "a group": {"split": {"group": "by"}},
    "a time": {"split": {"time": "by"}},
    "a file": {"eval": "own.jsonl", "ignore": ["by"]},
}


def branching(how: str) -> list[dict[str, Any]]:
    """Two conversations each with one beginning, and one that begins like its neighbor but for the answer."""
    first = [(f"Why {n // 2}?", "Nobody knows." if n % 10 == 1 else f"Because of {n // 2}.") for n in range(200)]
    rows = [answered_in_turns(turn, (f"And {n}?", f"So {n}.")) for n, turn in enumerate(first)]
    return [row | {"by": (n * 101) % 200} for n, row in enumerate(rows)]


def first_exchanges(rows: list[dict[str, Any]]) -> list[str]:
    found = [row.get("messages") or [*row["prompt"], *row["completion"]] for row in rows]
    return [str([turn["content"] for turn in messages[:2]]) for messages in found]


@pytest.mark.parametrize("how", HELD_OUT_BY)
@pytest.mark.parametrize("each", [False, True], ids=["marked", "each answer a row"])
def test_rows_that_begin_as_held_out_ones_are_counted_and_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str, each: bool
) -> None:
    rows = branching(how)
    own = rows[::9] if how == "a file" else []
    write(tmp_path / "own.jsonl", own)
    write(tmp_path / "chat.jsonl", [row for row in rows if row not in own])
    made = recipe(**HELD_OUT_BY[how])
    emitted(tmp_path, with_key(made, "model.name", UNMARKED) if each else made, monkeypatch).main()
    found = {part: first_exchanges(rows) for part, rows in split_of(tmp_path).items()}
    begun = sum(exchange in {*found["eval"], *found["test"]} for exchange in found["train"])
    report = report_of(tmp_path)["train"]
    assert (report["branches"], report["leaks"]) == (begun, 0)
    said = f"NOTE: sft: {begun} of {len(found['train'])} rows to train on share their first question and its answer"
    assert begun > 0 and said in capsys.readouterr().out


@pytest.mark.parametrize(("keys", "counts"), [({}, False), ({"split": {"group": "by"}}, True)])
def test_a_split_at_random_keeps_them_together_and_counts_none(
    tmp_path: Path, keys: dict[str, Any], counts: bool
) -> None:
    write(tmp_path / "chat.jsonl", [row | {"by": n} for n, row in enumerate(chats(60))] if counts else chats(60))
    files = texts(good(tmp_path, recipe(**keys)))
    assert ("branches" in files["prepare_data.py"]) is counts
    told = " ".join(files["README.md"].split())
    assert ("counted in report.json as branches" in told) is counts


def test_prompts_have_no_branches(tmp_path: Path) -> None:
    made: Tables = with_key(BASES["dpo-full"], "data.eval", "own.jsonl")
    write(tmp_path / "own.jsonl", [{"prompt": "Who?", "chosen": "Me.", "rejected": "You."}] * 8)
    assert "branches" not in texts(good(tmp_path, made))["prepare_data.py"]


@pytest.mark.parametrize("seed", [2, 8])
def test_what_is_evaluated_begins_no_conversation_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Once the test has drawn the one conversation that goes on, those that only begin so are few enough to draw."""
    rows = [answered_in_turns((f"Why {n}?", f"Because of {n}.")) for n in range(60)]
    for family in range(9):
        begins = f"Family {family}?"
        rows.append(answered_in_turns((begins, "Yes."), (f"More {family} 0?", "Sure 0.")))
        rows += [answered_in_turns((begins, f"Yes {n}.")) for n in range(6)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(eval_fraction=0.15, test_fraction=0.05), monkeypatch)
    monkeypatch.setattr(script, "SEED", seed)
    monkeypatch.setattr(script, "MAX_DROPPED", 1.0)
    script.main()
    found = split_of(tmp_path)
    begun = {row["messages"][0]["content"] for row in found["test"] if len(row["messages"]) > 2}
    assert begun and begun.isdisjoint(row["messages"][0]["content"] for row in found["eval"])
    assert report_of(tmp_path)["eval"]["leaks"] == 6
