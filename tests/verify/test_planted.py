"""Planted rows: each says by its words what must become of it, and what is wrong is told with the row and the cure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, texts
from emitted import built
from msgspec.structs import replace

from recipec.axes import CARRIED, ROW_FORMATS
from recipec.verify.bundle import read_bundle
from recipec.verify.planted import refusal_problems, refused_first
from recipec.verify.planted_leaks import (
    OPEN,
    asking_later,
    begun_problems,
    held_out,
    later_problems,
    leaks_of,
    shared_problems,
)
from recipec.verify.planted_lost import lost_problems
from recipec.verify.planted_rows import (
    A_QUESTION,
    UNKNOWN,
    Carrying,
    Planted,
    Wanted,
    alike,
    carrying,
    planted,
    unread_names,
    with_columns,
    with_fields,
)
from recipec.verify.rows import SourceData, bundle_data, sample_rows

CHAT = SourceData("sft", {}, "chat", {"messages": "messages"}, "messages", 512)
SPOKEN = replace(CHAT, content="from-value")
PAIRS = SourceData("dpo", {}, "preference", {name: name for name in ("prompt", "chosen", "rejected")}, "strings", 512)
PLAIN = Carrying((), (), False, False)
ALL = Carrying(tuple(CARRIED), (), True, True)


def words(value: Any) -> str:
    """All texts of a row, joined."""
    if isinstance(value, Mapping):
        return " ".join(map(words, value.values()))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "".join(part["text"] for part in value) if _parts(value) else " ".join(map(words, value))
    return str(value)


def _parts(value: Any) -> bool:
    return bool(value) and all(isinstance(part, Mapping) and "text" in part for part in value)


@pytest.mark.parametrize("carries", [PLAIN, ALL], ids=["plain", "carrying"])
@pytest.mark.parametrize("data", [CHAT, SPOKEN, PAIRS], ids=["chat", "from-value", "preference"])
def test_every_word_that_is_wanted_stands_in_the_row(data: SourceData, carries: Carrying) -> None:
    row = Planted(data, 12, carries)
    wanted, text = row.wanted(), words(row.row())
    assert wanted.learned and wanted.shown
    assert all(word in text for word in (*wanted.learned, *wanted.shown))


def test_what_the_plan_says_decides_what_is_learned() -> None:
    together, apart = Planted(CHAT, 1, PLAIN).wanted(), Planted(CHAT, 1, ALL).wanted()
    assert {"first-0001", "final-0001"} == set(together.learned)
    assert {"call-0001", "thought-0001", "final-0001"} == set(apart.learned)
    assert {"question-0001", "first-0001", "result-0001", "system-0001"} < set(apart.shown)
    stripped = Planted(CHAT, 1, replace(ALL, thinks=False)).wanted()
    assert set(stripped.absent) == {"thought-0001"}


def test_two_rows_of_a_format_without_conversations_ask_the_same() -> None:
    rows = planted(PAIRS, PLAIN, range(4))
    assert [row.row()["prompt"] for row in rows] == ["question-0000"] * 2 + ["question-0002"] * 2
    assert len({row.row()["chosen"] for row in rows}) == 4
    columns = {name: name for name in ("instruction", "input", "output")}
    asked = planted(replace(PAIRS, format="instruction", columns=columns), replace(ALL, names=("system",)), range(2))
    assert len({(row.row()["instruction"], row.row()["input"], row.row()["system"]) for row in asked}) == 1


def test_the_plan_says_what_rows_carry() -> None:
    answers = read_bundle(built("sft-lora")).last
    assert carrying(answers, CHAT, []).apart, "of conversations beside single answers the last one alone is learned"
    stage = replace(answers, decisions={**answers.decisions, "data_format": "chat"})
    assert carrying(stage, CHAT, ["id"]) == Carrying((), ("id",), False, False)
    other = replace(stage, decisions={**stage.decisions, "carried": ["tools"], "reasoning": "keep"})
    assert carrying(other, CHAT, []) == Carrying(("tools",), (), True, False)
    instruction = SourceData("sft", {}, "instruction", {"instruction": "q", "output": "a"}, "strings", 512)
    assert not carrying(other, instruction, []).has("tools"), "rows of that format take none"


@pytest.mark.parametrize(
    ("data", "carries", "columns", "fields"),
    [
        (CHAT, PLAIN, [UNKNOWN, "tools", "system"], [UNKNOWN, "tool_calls", "reasoning_content", "weight"]),
        (CHAT, ALL, [UNKNOWN], [UNKNOWN]),
        (CHAT, replace(PLAIN, passed_over=("tools", "weight")), [UNKNOWN, "system"], ...),
        (PAIRS, PLAIN, [UNKNOWN, "tools", "system"], []),
    ],
)
def test_what_nothing_reads_must_be_refused(
    data: SourceData, carries: Carrying, columns: Sequence[str], fields: Any
) -> None:
    found = unread_names(data, carries)
    assert found[0] == columns
    assert fields is ... or found[1] == fields
    assert ("weight" in found[1]) is (data is CHAT and carries is PLAIN)


def test_spoiled_rows_have_what_must_be_refused() -> None:
    row = Planted(CHAT, 0, PLAIN).row()
    assert with_columns(row, ["tools"])["tools"]
    assert with_fields(row, CHAT, ["weight"])["messages"][-1]["weight"]
    assert "weight" not in row["messages"][-1]


def test_a_name_that_gets_lost_is_told() -> None:
    assert refusal_problems(["tools", "id"], "columns", 1, "nothing reads tools, id, which …") == []
    (silent,) = refusal_problems(["tools", "id"], "columns", 0, "")
    assert "takes rows that have tools, id in columns and does not say that it drops them" in silent
    (unnamed,) = refusal_problems(["tools", "id"], "columns", 1, "KeyError: 'tools'")
    assert unnamed.startswith("prepare_data.py stops without naming id")


WANTED = Wanted({"final-0001": "an answer"}, {"first-0001": "an answer of weight 0"}, {"thought-0001": "a thought"})


@pytest.mark.parametrize(
    ("whole", "learned", "told"),
    [
        ("first-0001 final-0001", ["final-0001"], ""),
        ("first-0001", [""], "an answer of the row is lost"),
        ("first-0001 final-0001", [""], "an answer of the row is shown and not learned"),
        ("final-0001", ["final-0001"], "an answer of weight 0 of the row is lost"),
        ("first-0001 final-0001", ["first-0001 final-0001"], "weight 0 of the row is learned and should only be shown"),
        ("first-0001 final-0001 thought-0001", ["final-0001"], "a thought stays in the text"),
    ],
)
def test_words_that_are_not_where_they_should_be(whole: str, learned: list[str], told: str) -> None:
    problems = lost_problems([WANTED], [{"whole": whole, "learned": learned}])
    assert [told in problem and "(1 of 1 rows: " in problem for problem in problems] == [True] * bool(told)


def test_an_answer_under_another_question_is_told() -> None:
    wanted = [
        Wanted({f"final-{number:04d}": "an answer"}, {f"question-{number:04d}": A_QUESTION}, {}) for number in (1, 2)
    ]
    rows = [{"whole": f"question-{asked} final-{answer}", "learned": [f"final-{answer}"]} for asked, answer in SHIFTED]
    (problem,) = lost_problems(wanted, rows)
    assert problem.startswith("an answer stands under another question") and "(2 of 2 rows: " in problem


SHIFTED = [("0001", "0002"), ("0002", "0001")]


def test_rows_of_one_conversation_in_two_splits_are_told() -> None:
    asked = [{"whole": f"question-{number:04d} again question-{number:04d}", "learned": []} for number in range(6)]
    assert shared_problems({"train": asked[:4], "eval": asked[4:5], "test": asked[5:]}) == []
    (problem,) = shared_problems({"train": asked[:4], "eval": [*asked[3:5]], "test": asked[5:]})
    assert problem.startswith("1 of 2 conversations of eval.jsonl are also in train.jsonl (question-0003): split whole")


def test_an_answer_with_another_label_is_told() -> None:
    labeled = SourceData(
        "kto", {}, "unpaired-preference", {n: n for n in ("prompt", "completion", "label")}, "strings", 9
    )
    wanted = [Planted(labeled, number, PLAIN).wanted() for number in range(2)]
    assert [each.labels for each in wanted] == [{"final-0000": True}, {"other-0001": False}]
    rows = [
        {"whole": f"question-0000 {word}", "learned": [word], "label": word[0] == "f", "sides": [word]} for word in SAID
    ]
    assert lost_problems(wanted, rows) == []
    (problem,) = lost_problems(wanted, [rows[0], rows[1] | {"label": True}])
    assert problem.startswith("an answer that is labeled False has another label: look at the converter")


SAID = ("final-0000", "other-0001")


def test_the_answers_of_a_pair_that_is_taken_apart_have_labels() -> None:
    """Each is a row by itself, which no other answer stands beside."""
    wanted = Planted(PAIRS, 0, PLAIN).wanted()
    words = {"final-0000": True, "other-0000": False}
    rows = [
        {"whole": f"question-0000 {word}", "learned": [word], "label": of, "sides": [word]}
        for word, of in words.items()
    ]
    assert lost_problems([wanted], rows) == []
    (chosen, rejected) = lost_problems([wanted], [row | {"label": not row["label"]} for row in rows])
    assert "labeled True has another label" in chosen and "labeled False has another label" in rejected


def families(most: int, rows: int) -> list[Wanted]:
    asked = alike(range(12, 12 + rows), most)
    return [Planted(CHAT, 12 + place, PLAIN, asked=of).wanted() for place, of in enumerate(asked)]


def told(rows: Sequence[Wanted]) -> list[dict[str, Any]]:
    """The rows as the probe tells them."""
    return [{"whole": " ".join([*row.shown, *row.learned]), "learned": [*row.learned]} for row in rows]


def test_conversations_begin_alike_and_one_of_each_family_ends_there() -> None:
    rows = families(2, 9)
    assert len(rows) == 8, "two families of four, more than a split keeps together"
    assert [row.ends for row in rows] == [True, False, False, False] * 2
    assert [row.opening for row in rows] == ["opening-0012"] * 4 + ["opening-0016"] * 4
    assert {"opening-0012", "question-0013"} == {*rows[1].shown} and {*rows[0].shown} == {"opening-0012"}
    assert len({row.group for row in rows}) == 8


@pytest.mark.parametrize(("held", "trained"), [(0, [1, 2, 3]), (1, [0])])
def test_conversations_that_answer_what_is_held_out_are_told(held: int, trained: list[int]) -> None:
    """All go on from the short one, which is the beginning of each."""
    rows = families(2, 4)
    leaking = [rows[place] for place in trained]
    (problem,) = begun_problems([rows], {"train": told(leaking), "test": told([rows[held]])})
    assert problem.startswith(f"{len(leaking)} conversations of train.jsonl answer what one asks that is held out")
    splits = {"train": told([]), "test": told([rows[held]])}
    assert begun_problems([rows], splits) == []
    assert leaks_of([rows], splits, False, set()) == {rows[place].group for place in ([1, 2, 3] if held == 0 else [0])}


def test_a_beginning_that_others_teach_as_well_is_no_leak() -> None:
    rows = families(2, 4)
    assert begun_problems([rows], {"train": told([rows[0], rows[2], rows[3]]), "test": told([rows[1]])}) == []


def test_questions_that_a_later_stage_holds_out_are_told() -> None:
    assert later_problems(["question-0001"], []) == []
    (problem,) = later_problems(["question-0001", "question-0002"], ["question-0002"])
    assert problem.startswith("1 of 2 questions that a later stage holds out are learned (question-0002): prepare the")
    held = [Planted(PAIRS, 2, PLAIN).wanted()]
    assert leaks_of([held], {"train": []}, False, {"question-0002"}) == {"question-0002"}


def test_a_stage_cannot_hold_out_itself_what_it_is_asked_that_often() -> None:
    stage, source = read_bundle(built("sft-dpo")).stages[0], replace(CHAT, given={"path": "chat.jsonl"})
    rows = asking_later(stage, source, PLAIN, 100, others=12)
    times = len(rows) // len(OPEN)
    assert times > held_out(stage, 12 + len(rows))
    assert [row.row()["messages"][0]["content"] for row in rows[:times]] == [f"question-{OPEN[0]}"] * times
    assert all(len(row.row()["messages"]) == 2 for row in rows), "what follows would be another question"
    assert not asking_later(stage, replace(source, given={"path": "chat.parquet"}), PLAIN, 100, 12)


def test_a_file_of_two_stages_has_the_rows_that_must_be_refused() -> None:
    assert refused_first(("sft", "reward", "ppo"), {"ppo"}) == ["ppo", "sft", "reward"]
    assert refused_first(("reward", "ppo"), {}) == ["reward", "ppo"]


def test_every_thing_that_rows_may_carry_is_planted() -> None:
    """A new row of CARRIED is planted here, too, or this fails."""
    chat, plain = (words(Planted(CHAT, 3, carries).row()) for carries in (ALL, PLAIN))
    assert set(CARRIED) == {"tools", "reasoning", "weight", "parts", "system"} == set(ROW_FORMATS["chat"].carries)
    assert {"call-0003", "thought-0003", "system-0003"} <= {word for word in chat.split() if word not in plain}


def test_conversations_begin_with_an_answer_where_the_plan_leaves_it_out() -> None:
    skipping = replace(PLAIN, skips=True)
    plain, greeting = (Planted(CHAT, number, skipping) for number in (2, 3))
    assert [turn["role"] for turn in greeting.row()["messages"]][:2] == ["assistant", "user"]
    assert plain.row()["messages"][0]["role"] == "user"
    assert "given-0003" in greeting.wanted().absent and "given-0002" not in plain.wanted().absent
    learned = {"whole": words(greeting.row()), "learned": words(greeting.row()), "sides": [], "label": None}
    assert any("given-0003" in said for said in lost_problems([greeting.wanted()], [learned]))


@pytest.mark.parametrize("content", ["messages", "from-value"])
def test_prompts_that_are_conversations_end_with_an_answer(content: str) -> None:
    asked = replace(CHAT, format="prompts", columns={"prompt": "talk"}, content=content, handed=("talk",))
    planted = Planted(asked, 5, PLAIN)
    assert [*planted.row()["talk"][-1].values()] == ["gpt" if content == "from-value" else "assistant", "given-0005"]
    assert planted.wanted().absent == {
        "given-0005": "an answer that is left out, before the first question or behind the last"
    }


@pytest.mark.parametrize(("pair", "written"), [((True, False), (True, False)), (("up", "down"), ("up", "down"))])
def test_labels_are_written_as_the_converter_reads_them(
    tmp_path: Path, pair: tuple[Any, Any], written: tuple[Any, Any]
) -> None:
    rows = [{"prompt": f"{n}?", "completion": "So.", "label": pair[n % 2]} for n in range(8)]
    (tmp_path / "chat.jsonl").touch()
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path, BASES["kto"]))["prepare_data.py"])
    source = bundle_data(tmp_path / "prepare_data.py").stages[0].sources[0]
    assert {row["label"] for row in sample_rows(source, 8, None)} == {*written}
