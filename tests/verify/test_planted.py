"""Planted rows: each says by its words what must become of it, and what is wrong is told with the row and the cure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from emitted import built
from msgspec.structs import replace

from recipec.axes import CARRIED, ROW_FORMATS
from recipec.verify.bundle import read_bundle
from recipec.verify.planted import lost_problems, refusal_problems, refused_first, shared_problems
from recipec.verify.planted_rows import (
    A_QUESTION,
    UNKNOWN,
    Carrying,
    Planted,
    Wanted,
    carrying,
    planted,
    unread_names,
    with_columns,
    with_fields,
)
from recipec.verify.rows import SourceData

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
    told = planted(replace(PAIRS, format="instruction", columns=columns), replace(ALL, names=("system",)), range(2))
    assert len({(row.row()["instruction"], row.row()["input"], row.row()["system"]) for row in told}) == 1


def test_the_plan_says_what_rows_carry() -> None:
    stage = read_bundle(built("sft-lora")).last
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


def test_a_file_of_two_stages_has_the_rows_that_must_be_refused() -> None:
    assert refused_first(("sft", "reward", "ppo"), {"ppo"}) == ["ppo", "sft", "reward"]
    assert refused_first(("reward", "ppo"), {}) == ["reward", "ppo"]


def test_every_thing_that_rows_may_carry_is_planted() -> None:
    """A new row of CARRIED is planted here, too, or this fails."""
    chat, plain = (words(Planted(CHAT, 3, carries).row()) for carries in (ALL, PLAIN))
    assert set(CARRIED) == {"tools", "reasoning", "weight", "parts", "system"} == set(ROW_FORMATS["chat"].carries)
    assert {"call-0003", "thought-0003", "system-0003"} <= {word for word in chat.split() if word not in plain}
