"""What prepare_data.py holds out: whole conversations, groups and prompts, filled up to the share that was planned."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load
from test_prepare_data import Words, answered, chats, emitted, number, pairs, prepared, write

from recipec.facts.splitting import date_of
from recipec.rules import RULES

pytestmark = pytest.mark.executes

PARTS = ("train", "eval", "test")
UNMARKED = "tiiuae/Falcon3-1B-Instruct"  # a chat template that the catalog does not know


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


def test_rank_epochs_and_dropout_count_conversations_and_steps_their_answers(tmp_path: Path) -> None:
    """200 conversations of 10 answers are 2,000 rows to step over, and still fewer than 1,000 to learn from."""
    write(tmp_path / "chat.jsonl", conversations(100, 10))
    decided, whole = (
        good(tmp_path, with_key(unmarked(), "model.name", name)).plan.stages[0].decisions
        for name in (UNMARKED, "Qwen/Qwen3-8B")
    )
    assert (decided["data_rows"].value, decided["examples"].value) == (200, 2000)
    by_rows = "epochs", "lora_rank", "lora_dropout"
    assert [decided[id].value for id in by_rows] == [5, 16, 0.1] == [whole[id].value for id in by_rows]
    assert all("data_rows" in decided[id].inputs for id in (*by_rows, "adaptation", "examples"))


def test_whole_groups_fill_the_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One group of 900 rows and thirty of ten: a tenth of the rows is a dozen small groups, never the large one."""
    rows = [row | {"of": 0 if n < 900 else 1 + n // 10} for n, row in enumerate(chats(1200))]
    write(tmp_path / "chat.jsonl", rows)
    emitted(tmp_path, with_key(BASES["lora-single"], "data.split.group", "of"), monkeypatch).main()
    groups = {
        part: {0 if number(row) < 900 else 1 + number(row) // 10 for row in rows}
        for part, rows in split_of(tmp_path).items()
    }
    assert not groups["train"] & groups["test"] and not groups["train"] & groups["eval"]
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 960, "eval": 120, "test": 120}


@pytest.mark.parametrize("name", ["question", "itself", "teaches", "messages", "split_by"])
def test_a_column_of_any_name_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also one that is named like a column of the script's own, or like the one that is learned."""
    rows = chats(200) if name == "messages" else [row | {name: n // 10} for n, row in enumerate(chats(200))]
    write(tmp_path / "chat.jsonl", rows)
    recipe = with_key(with_key(BASES["lora-single"], "data.examples", 200), "data.split.group", name)
    emitted(tmp_path, recipe, monkeypatch).main()
    size = 1 if name == "messages" else 10
    groups = {part: {number(row) // size for row in rows} for part, rows in split_of(tmp_path).items()}
    assert not groups["train"] & (groups["test"] | groups["eval"]) and not groups["eval"] & groups["test"]
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 160, "eval": 20, "test": 20}


@pytest.mark.parametrize("other", ["Jos\u00e9 {} ", "Jose\u0301 {}"], ids=["a space", "the form of accents"])
def test_a_group_that_is_written_in_two_ways_stays_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    names = [("Jos\u00e9 {}" if n % 2 else other).format(n // 4) for n in range(120)]
    write(tmp_path / "chat.jsonl", [row | {"of": name} for row, name in zip(chats(120), names, strict=True)])
    emitted(tmp_path, with_key(BASES["lora-single"], "data.split.group", "of"), monkeypatch).main()
    groups = {part: {number(row) // 4 for row in rows} for part, rows in split_of(tmp_path).items()}
    assert all(groups.values())
    assert not groups["train"] & (groups["test"] | groups["eval"]) and not groups["eval"] & groups["test"]


def test_a_text_that_differs_in_space_and_accents_alone_is_no_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "text.jsonl", [{"text": f"\u00e9 is text {n}."} for n in range(120)])
    write(tmp_path / "held.jsonl", [{"text": "e\u0301 is text 7."}, {"text": "\u00e9 is text 8.\n"}])
    recipe = with_key(with_key(BASES["text"], "data.train", "text.jsonl"), "data.test", "held.jsonl")
    emitted(tmp_path, with_key(recipe, "data.examples", 120), monkeypatch).main()
    (report,) = (json.loads(file.read_text()) for file in (tmp_path / "data").glob("*/report.json"))
    assert report["train"]["leaks"] + report["eval"]["leaks"] == 2


def test_a_file_that_is_not_split_needs_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", [row | {"of": n // 10} for n, row in enumerate(chats(200))])
    write(tmp_path / "held.jsonl", chats(220)[200:])
    recipe = with_key(with_key(BASES["lora-single"], "data.split.group", "of"), "data.eval", "held.jsonl")
    emitted(tmp_path, with_key(recipe, "data.examples", 200), monkeypatch).main()
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 180, "eval": 20, "test": 20}


@pytest.mark.parametrize("given", ["eval", "test"])
def test_what_is_tested_chooses_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """A file that has rows of the training file, some of which the other part draws."""
    write(tmp_path / "chat.jsonl", chats(200))
    write(tmp_path / "held.jsonl", chats(100))
    recipe = with_key(with_key(BASES["lora-single"], f"data.{given}", "held.jsonl"), "data.examples", 200)
    script = emitted(tmp_path, recipe, monkeypatch)
    monkeypatch.setattr(script, "MAX_DROPPED", 0.6)
    script.main()
    found = {part: {number(row) for row in rows} for part, rows in split_of(tmp_path).items()}
    assert not found["eval"] & found["test"] and not found["train"] & (found["eval"] | found["test"])
    report = json.loads((tmp_path / "data/sft/report.json").read_text())
    assert report["eval"]["leaks"] > 0


@pytest.mark.parametrize("key", ["data.split.time", "data.split.group", "data.split.stratify", "data.eval"])
def test_the_page_of_evaluations_names_what_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """An evaluation takes the first rows (EVAL-003)."""
    write(tmp_path / "chat.jsonl", [row | {"at": n // 5, "kind": n % 2} for n, row in enumerate(chats(200))])
    write(tmp_path / "held.jsonl", chats(220)[200:])
    value = {"data.split.stratify": "kind", "data.eval": "held.jsonl"}.get(key, "at")
    emitted(tmp_path, with_key(with_key(BASES["lora-single"], key, value), "data.examples", 200), monkeypatch).main()
    found = [number(row) for row in split_of(tmp_path)["eval"]]
    page = re.sub(r"\s+", " ", RULES["EVAL-003"].function.__doc__ or "")
    kept = re.findall(r"`([^`]+)` keeps? (?:its|their) order", page)
    assert (found == sorted(found)) == (key in kept) and kept == ["data.eval"]


def test_a_share_that_groups_cannot_give_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    write(tmp_path / "chat.jsonl", [row | {"of": n % 3} for n, row in enumerate(chats(300))])
    recipe = with_key(with_key(BASES["lora-single"], "data.split.group", "of"), "data.examples", 300)
    emitted(tmp_path, recipe, monkeypatch).main()
    assert "NOTE: 100 rows are held out, 30 planned: of has 3 values left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "says"), [(None, "`at` is empty"), ("31.01.2026", "neither a number nor a date"), (True, "holds True")]
)
def test_a_row_without_a_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object, says: str
) -> None:
    write(tmp_path / "chat.jsonl", [row | {"at": "2026-01-31"} for row in chats(50)])
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.split.time", "at"), monkeypatch)
    write(tmp_path / "chat.jsonl", [row | {"at": value} for row in chats(50)])
    with pytest.raises(SystemExit, match=rf"chat\.jsonl, line 1: .*{says}"):
        script.main()


DATES = ["2024-9-8", "2024-09", "2024-09-08 00:00:00 UTC", "2024-9-8T07:00", "2024-W36", "2024-09-08", "2024-09-08T07Z"]
NO_DATES = ["2024-13", "9/8/2024", "2024-9-8 7", "Q3 2024", "2024-12-345", "2024-9-", "UTC", "20240-9-8"]


@pytest.mark.parametrize("date", [*DATES, *NO_DATES])
def test_dates_are_read_as_the_compiler_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, date: str) -> None:
    write(tmp_path / "chat.jsonl", [row | {"at": "2026-01-31"} for row in chats(50)])
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.split.time", "at"), monkeypatch)
    if date in NO_DATES:
        with pytest.raises(ValueError, match="neither a number nor a date"):
            script.split_by({"at": date})
        with pytest.raises(ValueError):
            date_of(date)
    else:
        assert script.split_by({"at": date}) == date_of(date).timestamp()
        assert (date_of(date).year, date_of(date).month) == (2024, 9)


@pytest.mark.parametrize("times", [["2026-01-31", "2026-01-31T10:00:00Z"], [3, 4.5], ["2026-01-31", "2024-01-01"]])
def test_times_are_compared_as_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[object]) -> None:
    write(tmp_path / "chat.jsonl", [row | {"at": times[n % 10 == 3]} for n, row in enumerate(chats(100))])
    recipe = with_key(with_key(BASES["lora-single"], "data.split.time", "at"), "data.eval_fraction", 0.1)
    recipe = with_key(with_key(recipe, "data.examples", 100), "data.test_fraction", 0.1)
    emitted(tmp_path, recipe, monkeypatch).main()
    newer = times[1] != "2024-01-01"
    found = {number(row) % 10 == 3 for row in split_of(tmp_path)["test"]}
    assert found == {newer}


def test_conversations_that_begin_alike_are_no_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = conversations(200, 2)
    for n, row in enumerate(rows):
        row["messages"][0]["content"], row["messages"][1]["content"] = "Hi", f"Hello {n}!"
    write(tmp_path / "chat.jsonl", rows)
    emitted(tmp_path, unmarked(), monkeypatch).main()
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 320, "eval": 40, "test": 40}


def test_what_nobody_asked_is_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without anything before it: evaluation could not ask for it."""
    alone = {"messages": [{"role": "assistant", "content": "Hello!"}]}
    for recipe, counted in ((unmarked(), "empty"), (with_key(BASES["lora-single"], "data.examples", 200), "empty")):
        folder = tmp_path / recipe["model"]["name"].split("/")[1]
        folder.mkdir()
        write(folder / "chat.jsonl", [*conversations(60, 1), *[alone] * 3])
        emitted(folder, recipe, monkeypatch).main()
        report = json.loads((folder / "data/sft/report.json").read_text())["train"]
        assert report[counted] == 3


def test_a_duplicate_keeps_the_larger_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "pool.jsonl", chats(100))
    write(tmp_path / "own.jsonl", chats(20))
    sources = [{"path": "pool.jsonl"}, {"path": "own.jsonl", "weight": 3}]
    recipe = with_key(BASES["lora-single"], "data.train", sources)
    emitted(tmp_path, with_key(recipe, "data.examples", 160), monkeypatch).main()
    learned = [number(row) for row in split_of(tmp_path)["train"]]
    assert all(learned.count(n) == (3 if n < 20 else 1) for n in set(learned))
    assert {n for n in learned if n < 20}


@pytest.mark.parametrize("key", ["time", "stratify"])
def test_answers_to_a_prompt_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    rows = [answered(f"Why {n % 100}?", f"Because of {n}.", n < 200) | {"at": n % 100 // 10} for n in range(400)]
    write(tmp_path / "own.jsonl", rows)
    recipe = with_key(with_key(BASES["kto"], "data.examples", 400), f"data.split.{key}", "at")
    emitted(tmp_path, with_key(recipe, "data.preferences", "own.jsonl"), monkeypatch).main()
    prompts = {part: {number(row) for row in rows} for part, rows in split_of(tmp_path, "kto").items()}
    assert not prompts["train"] & (prompts["test"] | prompts["eval"]) and not prompts["eval"] & prompts["test"]
    assert json.loads((tmp_path / "data/kto/report.json").read_text())["train"]["leaks"] == 0


def test_a_single_group_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", [row | {"of": 1} for row in chats(50)])
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.split.group", "of"), monkeypatch)
    with pytest.raises(SystemExit, match="all rows left have one of: none can be held out"):
        script.main()


def test_a_single_prompt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = emitted(tmp_path, BASES["dpo-full"], monkeypatch)
    write(tmp_path / "pairs.jsonl", [row | {"prompt": "Why?"} for row in pairs(50)])
    with pytest.raises(SystemExit, match="all rows left have one prompt"):
        script.main()


def test_several_processes_make_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    script = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    assert script.processes(4_999) == 0
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
    with pytest.raises(SystemExit, match=r"chat\.jsonl, line 51: this message is not from system"):
        script.main()


def test_a_system_prompt_makes_no_other_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = {"role": "system", "content": "Be brief."}
    write(tmp_path / "chat.jsonl", [*chats(60), *({"messages": [brief, *row["messages"]]} for row in chats(60))])
    emitted(tmp_path, BASES["lora-single"], monkeypatch).main()
    found = {part: {row["messages"][-2]["content"] for row in rows} for part, rows in split_of(tmp_path).items()}
    assert not found["train"] & (found["eval"] | found["test"])


def test_what_a_source_lacks_is_told_before_the_others_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows of every source are converted before all rows of any."""
    sources = {name: [row | {"user": n % 5} for n, row in enumerate(chats(60))] for name in ("chat", "other")}
    for name, rows in sources.items():
        write(tmp_path / f"{name}.jsonl", rows)
    made = with_key(BASES["lora-single"], "data.train", ["chat.jsonl", "other.jsonl"])
    script = emitted(tmp_path, with_key(made, "data.split", {"group": "user"}), monkeypatch)
    write(tmp_path / "other.jsonl", chats(60))
    monkeypatch.setattr(script, "converted", lambda *_: pytest.fail("a whole source was converted"))
    with pytest.raises(SystemExit, match=r"other\.jsonl, line 1: `user` is empty"):
        script.main()


def test_values_that_are_no_classes_are_told_before_rows_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "chat.jsonl", [row | {"user": n % 5} for n, row in enumerate(chats(60))])
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.split", {"stratify": "user"}), monkeypatch)
    write(tmp_path / "chat.jsonl", [row | {"user": n} for n, row in enumerate(chats(60))])
    monkeypatch.setattr(script, "converted", lambda *_: pytest.fail("a whole source was converted"))
    with pytest.raises(SystemExit, match="60 values of user in 60 rows are no classes"):
        script.main()


@pytest.mark.parametrize("held_out", [None, "own.jsonl"])
def test_the_classes_of_all_training_sources_are_judged_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: str | None
) -> None:
    """As `check` does; what is held out by a file is not split."""
    for name, count in {"chat": 24, "more": 400}.items():
        asked = [{"messages": [{**turn, "content": f"{name}: {turn['content']}"} for turn in row["messages"]]}
                 for row in chats(count)]  # fmt: skip
        write(tmp_path / f"{name}.jsonl", [row | {"topic": n % 24} for n, row in enumerate(asked)])
    write(tmp_path / "own.jsonl", [row | {"topic": n} for n, row in enumerate(chats(30))])
    made = with_key(BASES["lora-single"], "data.train", ["chat.jsonl", "more.jsonl"])
    made = with_key(with_key(made, "data.split", {"stratify": "topic"}), "data.eval", held_out)
    emitted(tmp_path, made, monkeypatch).main()
    assert len(split_of(tmp_path)["train"]) > 300


def test_small_classes_hold_out_their_share_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of four rows is less than half a row, and of forty such classes sixteen rows."""
    write(tmp_path / "chat.jsonl", [row | {"topic": n // 4} for n, row in enumerate(chats(160))])
    emitted(tmp_path, with_key(BASES["lora-single"], "data.split", {"stratify": "topic"}), monkeypatch).main()
    assert {part: len(rows) for part, rows in split_of(tmp_path).items()} == {"train": 128, "eval": 16, "test": 16}


def test_a_source_of_little_weight_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    said = [[{**turn, "content": f"Rare: {turn['content']}"} for turn in row["messages"]] for row in chats(4)]
    write(tmp_path / "few.jsonl", [{"messages": turns} for turns in said])
    write(tmp_path / "own.jsonl", chats(80)[70:])
    made = with_key(BASES["lora-single"], "data.train", ["chat.jsonl", {"path": "few.jsonl", "weight": 0.1}])
    emitted(tmp_path, with_key(made, "data.eval", "own.jsonl"), monkeypatch).main()
    assert sum("Rare" in json.dumps(row) for row in prepared(tmp_path, "sft/train")) == 1


def trees(count: int, branches: int) -> list[dict[str, Any]]:
    """Conversations that begin with one question and go on in several ways."""
    return [
        answered_in_turns((f"Why {n}?", f"Because of {n} ({branch})."), (f"And {branch}?", f"So {n}."))
        for n in range(count)
        for branch in range(branches)
    ]


def answered_in_turns(*turns: tuple[str, str]) -> dict[str, Any]:
    said = [(role, text) for turn in turns for role, text in zip(("user", "assistant"), turn, strict=True)]
    return {"messages": [{"role": role, "content": text} for role, text in said]}


def first_questions(rows: list[dict[str, Any]]) -> set[str]:
    return {(row.get("messages") or row["prompt"])[0]["content"] for row in rows}


@pytest.mark.parametrize("column", [None, "topic"], ids=["at random", "by class"])
@pytest.mark.parametrize("base", ["marked", "each answer a row"])
def test_conversations_that_begin_alike_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, column: str | None
) -> None:
    write(tmp_path / "chat.jsonl", [row | {"topic": n // 3 % 4} for n, row in enumerate(trees(80, 3))])
    recipe = with_key(unmarked() if base != "marked" else BASES["lora-single"], "data.examples", 240)
    recipe = with_key(recipe, "data.split.stratify" if column else "data.ignore", column or ["topic"])
    emitted(tmp_path, recipe, monkeypatch).main()
    found = {part: first_questions(rows) for part, rows in split_of(tmp_path).items()}
    assert all(found.values())
    assert not found["train"] & (found["eval"] | found["test"]) and not found["eval"] & found["test"]
    assert json.loads((tmp_path / "data/sft/report.json").read_text())["train"]["leaks"] == 0


def test_the_beginning_of_a_held_out_conversation_is_not_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of its own is held out, so that no split keeps conversations together."""
    whole = [(f"Why {n}?", f"Because of {n}.") for n in range(60)]
    write(tmp_path / "chat.jsonl", [answered_in_turns(turn) for turn in whole])
    write(tmp_path / "held.jsonl", [answered_in_turns(turn, ("And?", "So.")) for turn in whole[:20]])
    recipe = with_key(with_key(BASES["lora-single"], "data.eval", "held.jsonl"), "data.examples", 60)
    script = emitted(tmp_path, recipe, monkeypatch)
    monkeypatch.setattr(script, "MAX_DROPPED", 0.4)
    script.main()
    found = {part: first_questions(rows) for part, rows in split_of(tmp_path).items()}
    assert found["train"] and not found["train"] & found["eval"]


def test_prepared_rows_are_not_read_again_and_a_large_share_leaves_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`**/*.jsonl` matches what the bundle in out/ has prepared."""
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "**/*.jsonl"), "data.examples", 100)
    write(tmp_path / "chat.jsonl", chats(100))
    bundle = tmp_path / "out"
    (bundle / ".recipec").mkdir(parents=True)
    files = texts(good(tmp_path, with_key(recipe, "data.eval_fraction", 0.95)))
    (bundle / "prepare_data.py").write_text(files["prepare_data.py"])
    script = load(bundle / "prepare_data.py", monkeypatch)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: Words())
    monkeypatch.setattr(script, "prove_mask", lambda *_: None, raising=False)
    monkeypatch.setattr(sys, "argv", ["prepare_data.py", "--data-root", str(tmp_path)])
    script.main()
    assert [len(prepared(bundle, f"sft/{part}")) for part in ("train", "eval", "test")] == [3, 95, 2]
    script.named_files.cache_clear()
    capsys.readouterr()
    script.main()
    told = capsys.readouterr().out
    assert "is up to date" in told and told.count("files in bundles are left out (3; ") == 1
