"""Training rows that ask what is held out: how many there may be, and that the build counts those that are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from test_prepare_data import chats, emitted, turns, write
from test_splits import answered_in_turns, first_questions, split_of

pytestmark = pytest.mark.executes


def recipe(**keys: object) -> Tables:
    made = {**BASES["lora-single"], "data": {"train": "chat.jsonl"}}
    for key, value in keys.items():
        made = with_key(made, f"data.{key}", value)
    return made


def report_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "data/sft/report.json").read_text())


def counted(folder: Path, made: Tables) -> list[str]:
    return [one.title for one in compiled(folder, made).diagnostics if one.code == "W0554"]


def trees(first: int, last: int) -> list[dict[str, Any]]:
    """Conversations of one, two and three questions that begin alike."""
    said = [(f"Why {n}?", f"Because of {n}.") for n in range(first, last)]
    more = [("And?", "So."), ("And then?", "Then.")]
    return [answered_in_turns(turn, *more[: n % 3]) for n, turn in enumerate(said)]


def test_a_held_out_file_that_overlaps_stops_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(100))
    write(tmp_path / "ev.jsonl", [*chats(98)[2:], *chats(120)[100:]])
    write(tmp_path / "te.jsonl", chats(330)[320:])
    script = emitted(tmp_path, recipe(eval="ev.jsonl", test="te.jsonl"), monkeypatch)
    said = r"^sft: 96 of 100 training rows ask what held-out rows ask, more than 5% "
    said += r"\(the first: chat\.jsonl, line 3\)\. Remove these questions from "
    said += r"data\.eval and data\.test, or these rows from the training data\. To accept the loss, raise MAX_"
    with pytest.raises(SystemExit, match=said):
        script.main()
    assert not (tmp_path / "data/prepared.json").exists()
    monkeypatch.setattr(script, "MAX_DROPPED", 0.97)
    script.main()
    assert report_of(tmp_path)["train"]["leaks"] == 96


def test_the_build_counts_what_preparation_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations that are held out, that go on from held-out ones, and that are the beginning of some."""
    more = answered_in_turns(("Why 150?", "Well."), ("And you?", "I do not know."))
    write(tmp_path / "chat.jsonl", [*trees(0, 180), more, *trees(0, 9)])
    whole = [
        answered_in_turns((f"Why {n}?", "No."), *[("And?", "No."), ("What?", "No.")][: n % 2]) for n in range(0, 300, 4)
    ]
    write(tmp_path / "ev.jsonl", whole)
    write(tmp_path / "te.jsonl", chats(330)[320:])
    made = recipe(eval="ev.jsonl", test="te.jsonl")
    script = emitted(tmp_path, made, monkeypatch)
    monkeypatch.setattr(script, "MAX_DROPPED", 1.0)
    script.main()
    leaks = report_of(tmp_path)["train"]["leaks"]
    assert 0 < leaks < 181
    assert counted(tmp_path, made) == [f"{leaks} of 181 rows of data.train ask what rows of data.eval ask"]


def test_the_build_counts_rows_for_evaluation_that_ask_what_the_test_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would choose the checkpoint by questions of the test: preparation leaves them out."""
    write(tmp_path / "chat.jsonl", chats(600)[400:])
    write(tmp_path / "ev.jsonl", [*trees(0, 60), *trees(0, 3)])
    write(tmp_path / "te.jsonl", [answered_in_turns((f"Why {n}?", "No.")) for n in range(40, 70)])
    made = recipe(eval="ev.jsonl", test="te.jsonl")
    emitted(tmp_path, made, monkeypatch).main()
    leaks = report_of(tmp_path)["eval"]["leaks"]
    assert 20 <= leaks < 60
    assert counted(tmp_path, made) == [f"{leaks} of 60 rows of data.eval ask what rows of data.test ask"]


def test_groups_that_ask_the_same_stop_and_never_share_a_question_with_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"prompt": f"Q {i % 80}?", "completion": f"A{i} {i}", "customer": i} for i in range(400)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(split={"group": "customer"}), monkeypatch)
    with pytest.raises(SystemExit, match=r"Rows that differ in customer ask the same. Split by another column"):
        script.main()
    monkeypatch.setattr(script, "MAX_DROPPED", 1.0)
    script.main()
    found = {part: first_questions(rows) for part, rows in split_of(tmp_path).items()}
    assert all(found.values())
    assert not found["eval"] & found["test"] and not found["train"] & (found["eval"] | found["test"])
    assert report_of(tmp_path)["eval"]["leaks"] > 0


def greeted(column: str | None) -> list[dict[str, Any]]:
    hello = ("Hi", "Hello!")
    rows = [answered_in_turns(hello, (f"Question {n}?", f"Answer {n}.")) for n in range(100)]
    rows += [answered_in_turns((f"Why {n}?", f"Because of {n}.")) for n in range(100)]
    rows += [answered_in_turns(("Hi", f"Hello {n}!")) for n in range(8)]
    return [row | {column: n % 2} for n, row in enumerate(rows)] if column else rows


def test_spaces_and_encodings_of_accents_make_no_other_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed, apart = "caf\u00e9", "cafe\u0301"
    write(tmp_path / "chat.jsonl", [answered_in_turns((f"Why {composed} {n}?", "So.")) for n in range(100)])
    asked = [f"Why {apart} 1? ", f"Why {apart} 2?", "Why not?"]
    write(tmp_path / "ev.jsonl", [answered_in_turns((question, "So.")) for question in asked])
    done = compiled(tmp_path, recipe(eval="ev.jsonl"))
    assert "W0554" in {finding.code for finding in done.diagnostics}
    emitted(tmp_path, recipe(eval="ev.jsonl"), monkeypatch).main()
    assert report_of(tmp_path)["train"]["leaks"] == 2


def test_links_to_what_is_not_here_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts/a.jsonl", chats(100))
    script = emitted(tmp_path, recipe(train="parts/*.jsonl"), monkeypatch)
    (tmp_path / "parts/b.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(SystemExit, match=r"b\.jsonl is a link to a file that is not here \(1 in all\)\. Fetch"):
        script.main()
    done = compiled(tmp_path, recipe(train="parts/*.jsonl"))
    assert "E0303" in {finding.code for finding in done.diagnostics}


def alone(rows: list[dict[str, Any]]) -> int:
    """How many conversations are only the greeting."""
    return sum(len(row["messages"]) == 2 and "Hi" in str(row) for row in rows)


@pytest.mark.parametrize("column", [None, "topic"], ids=["at random", "by class"])
def test_a_greeting_alone_takes_no_conversation_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str | None
) -> None:
    write(tmp_path / "chat.jsonl", greeted(column))
    keys: dict[str, object] = {"split": {"stratify": column}} if column else {}
    script = emitted(tmp_path, recipe(**keys, eval_fraction=0.2, test_fraction=0.2), monkeypatch)
    for openings, kept in (
        ([["a"], ["a", "b"], ["a", "c"], ["d"]], [script.NEVER, "b", "c", "d"]),
        ([["a"]] * 3, ["a"] * 3),
    ):
        assert [*script.kept_together(script.Dataset.from_dict({"openings": openings}), 1)] == kept
    script.main()
    found = split_of(tmp_path)
    assert {part: alone(rows) for part, rows in found.items()} == {"train": 8, "eval": 0, "test": 0}
    assert report_of(tmp_path)["train"]["leaks"] == 0
    assert all(first_questions(found[part]) >= {"Hi"} for part in found)


def test_a_greeting_that_a_group_holds_out_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The held-out conversation is dropped, not the many that go on from it."""
    write(tmp_path / "chat.jsonl", [row | {"by": n % 26} for n, row in enumerate(greeted(None))])
    script = emitted(tmp_path, recipe(split={"group": "by"}, eval_fraction=0.2, test_fraction=0.2), monkeypatch)
    script.main()
    found, report = split_of(tmp_path), report_of(tmp_path)
    assert alone(found["eval"]) == alone(found["test"]) == 0
    dropped = sum(report[part]["greetings"] for part in ("eval", "test"))
    assert dropped == 8 - alone(found["train"]) > 0
    assert report["train"]["leaks"] == 0
    assert f"held-out beginnings of conversations to train on ({dropped})" in capsys.readouterr().out


def test_the_newest_greeting_stays_where_it_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that ask what the newest row asks would be held out with it, and those that go on be leaks."""
    write(tmp_path / "chat.jsonl", [row | {"by": n} for n, row in enumerate(greeted(None))])
    script = emitted(tmp_path, recipe(split={"time": "by"}, eval_fraction=0.2, test_fraction=0.2), monkeypatch)
    script.main()
    found, report = split_of(tmp_path), report_of(tmp_path)
    assert {part: alone(rows) for part, rows in found.items()} == {"train": 8, "eval": 0, "test": 0}
    assert {part: len(rows) for part, rows in found.items()} == {"train": 124, "eval": 42, "test": 42}
    assert report["train"]["leaks"] == 0


def test_later_stages_may_take_more_than_the_limit(tmp_path: Path) -> None:
    """What is held out for preferences is no fault of the conversations that are learned before."""
    script = texts(good(tmp_path, BASES["sft-dpo"]))["prepare_data.py"]
    own, later = script.index("check_leaks(stage, splits"), script.index("# what later stages are judged by")
    assert own < later


@pytest.mark.parametrize(("base", "checks"), [("lora-single", True), ("text", False), ("dpo-full", False)])
def test_leaks_are_checked_where_there_can_be_some(tmp_path: Path, base: str, checks: bool) -> None:
    """Prompts that are drawn with all their answers, and texts, share nothing."""
    assert ("check_leaks" in texts(good(tmp_path, BASES[base]))["prepare_data.py"]) is checks


@pytest.mark.parametrize("key", ["group", "stratify"])
def test_a_number_and_its_text_are_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """As rows of JSON and of CSV bring them, and tables with gaps."""
    script = emitted_with(tmp_path, key, monkeypatch)
    same = [
        {script.split_by({"of": value}) for value in values} for values in ([3, "3", 3.0, "3.0"], [2**70, str(2**70)])
    ]
    assert [len(values) for values in same] == [1, 1]
    apart = [3, 3.5, "03", True, 1, "v3.0", "v3", [3], 2**53, 2**53 + 1]
    assert len({script.split_by({"of": value}) for value in apart}) == len(apart)


def emitted_with(folder: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    write(folder / "chat.jsonl", [row | {"of": n % 5} for n, row in enumerate(chats(60))])
    return emitted(folder, recipe(split={key: "of"}), monkeypatch)


def by_time(folder: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    rows = [{"messages": turns(("user", said), ("assistant", f"So {n}.")), "at": n} for n, said in enumerate(asked)]
    write(folder / "chat.jsonl", rows)
    return emitted(folder, recipe(split={"time": "at"}), monkeypatch)


def test_only_the_newest_rows_are_held_out_and_older_ones_that_ask_the_same_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [f"Why {n}?" for n in range(100)]
    asked[3] = asked[97]
    by_time(tmp_path, asked, monkeypatch).main()
    parts = {part: [row["messages"][-1]["content"] for row in rows] for part, rows in split_of(tmp_path).items()}
    assert sorted(parts["test"]) == [f"So {n}." for n in range(90, 100)]
    assert sorted(parts["eval"]) == [f"So {n}." for n in range(80, 90)]
    assert parts["test"] != sorted(parts["test"])  # so that the first ones are a sample of all
    assert report_of(tmp_path)["train"]["leaks"] == 1 and "So 3." not in parts["train"]


def test_rows_for_evaluation_that_ask_what_newer_ones_ask_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [f"Why {n}?" for n in range(100)]
    asked[85] = asked[95]
    by_time(tmp_path, asked, monkeypatch).main()
    parts = {part: first_questions(rows) for part, rows in split_of(tmp_path).items()}
    assert not parts["eval"] & parts["test"] and "Why 95?" in parts["test"]
    assert report_of(tmp_path)["eval"]["leaks"] == 1


def test_of_pairs_the_newest_alone_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [{"prompt": f"Why {n}?", "chosen": f"So {n}.", "rejected": "No.", "at": n} for n in range(100)]
    pairs[3]["prompt"] = pairs[97]["prompt"]
    write(tmp_path / "own.jsonl", pairs)
    made = {**BASES["dpo-full"], "data": {"preferences": "own.jsonl", "split": {"time": "at"}}}
    emitted(tmp_path, made, monkeypatch).main()
    (folder,) = [path.parent for path in (tmp_path / "data").rglob("report.json")]
    test = [json.loads(line)["chosen"] for line in (folder / "test.jsonl").read_text().splitlines()]
    assert sorted(turn["content"] for (turn,) in test) == [f"So {n}." for n in range(90, 100)]
    assert json.loads((folder / "report.json").read_text())["train"]["leaks"] == 1


def test_older_rows_that_ask_what_the_newest_ask_stop_the_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = by_time(tmp_path, [f"Why {n}?" if n % 2 else "Continue" for n in range(100)], monkeypatch)
    with pytest.raises(SystemExit, match=r"40 of 80 training rows ask what held-out rows ask.*Split at random"):
        script.main()


@pytest.mark.parametrize("name", ["own.jsonl", "own.json", "own.csv"])
def test_a_file_without_rows_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": f"For {n}."} for n in range(40)]
    lines = {"own.jsonl": [*map(json.dumps, rows)], "own.json": [json.dumps(rows)]}
    lines["own.csv"] = ["prompt,completion", *(",".join(row.values()) for row in rows)]
    (tmp_path / name).write_text("\n".join(lines[name]))
    script = emitted(tmp_path, recipe(train=name), monkeypatch)
    (tmp_path / name).write_text({"own.jsonl": "\n\n", "own.json": "[]", "own.csv": "prompt,completion\n"}[name])
    with pytest.raises(SystemExit, match=f"^{name} cannot be read: it holds no rows$"):
        script.main()
    (tmp_path / name).write_text("")
    with pytest.raises(SystemExit, match=f"^{name} cannot be read: it holds no rows$"):
        script.main()


def test_two_marks_before_a_row_are_read_as_the_build_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an empty file with a mark, and a file behind it."""
    lines = [json.dumps(row) for row in chats(40)]
    lines[0], lines[7] = f"\ufeff\ufeff{lines[0]}", f"\ufeff\ufeff\ufeff{lines[7]}"
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    emitted(tmp_path, recipe(), monkeypatch).main()
    assert report_of(tmp_path)["train"]["read"] == 40
