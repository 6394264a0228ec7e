"""Rows that preparation leaves out, or does not learn, are told when a recipe is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.compiler import Compilation

SFT: Tables = {**BASES["lora-single"], "data": {"train": "rows.jsonl"}}
DPO: Tables = {**BASES["dpo-full"], "data": {"preferences": "rows.jsonl"}}


def made(folder: Path, recipe: Tables, rows: list[dict[str, Any]], file: str = "rows.jsonl") -> Compilation:
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return compiled(folder, recipe)


def titles(compilation: Compilation, code: str) -> list[str]:
    return [found.title for found in compilation.diagnostics if found.code == code]


def pair(number: int, better: str, worse: str) -> dict[str, str]:
    return {"prompt": f"Why {number}?", "chosen": better, "rejected": worse}


def asked(number: int, answer: object = "So.") -> dict[str, Any]:
    return {"prompt": f"Why {number}?", "completion": answer}


def test_answers_that_differ_in_space_around_them_are_the_same(tmp_path: Path) -> None:
    rows = [pair(n, "So.", ("So. ", "\nSo.", "S o.", "No.")[n % 4]) for n in range(40)]
    told = titles(made(tmp_path, DPO, rows), "W0550")
    assert told == ["20 of 40 sampled pairs of data.preferences have the same answer on both sides"]


def test_pairs_that_are_there_exchanged_are_told(tmp_path: Path) -> None:
    """An equal pair contradicts nothing, nor does the same answer to another question."""
    rows = [pair(n, "So.", "No.") for n in range(40)]
    assert titles(made(tmp_path, DPO, [*rows, pair(90, "No.", "So."), pair(91, "So.", "So.")]), "W0552") == []
    found = made(tmp_path, DPO, [*rows, pair(3, "No.", "So."), pair(91, "So.", "So.")])
    assert titles(found, "W0552") == ["2 of 42 sampled rows of data.preferences contradict others"]
    label = next(found for found in found.diagnostics if found.code == "W0552").labels[0].message
    assert label.startswith("rows.jsonl:4 and rows.jsonl:41 ")


def test_the_plan_counts_no_exact_duplicates(tmp_path: Path) -> None:
    found = made(tmp_path, SFT, [asked(n % 40) for n in range(100)])
    assert titles(found, "W0553") == ["60 of 100 sampled rows of data.train are exact duplicates of others"]
    decisions = found.plan.stages[0].decisions
    assert {id: decisions[id].value for id in ("examples", "data_rows", "source_rows")} == {
        "examples": 40,
        "data_rows": 40,
        "source_rows": 40,
    }
    assert "of 100 rows, 60 are exact duplicates: prepare_data.py leaves them out" in decisions["examples"].because


def test_the_plan_counts_no_pairs_that_prefer_nothing(tmp_path: Path) -> None:
    """Of 100 pairs 12 are equal, 4 are exchanged ones of 4 others, and one of these is there twice."""
    rows = [pair(n, "So.", "So." if n < 12 else "No.") for n in range(95)]
    rows += [pair(n, "No.", "So.") for n in (20, 21, 22, 23, 23)]
    examples = made(tmp_path, DPO, rows).plan.stages[0].decisions["examples"]
    assert examples.value == 100 - 12 - 8 - 1
    assert "of 100 rows, 1 are exact duplicates and 20 prefer nothing or contradict others" in examples.because


def answer(number: int, label: bool) -> dict[str, Any]:
    return {"prompt": f"Why {number}?", "completion": "So.", "label": label}


def test_labels_are_those_of_the_rows_that_stay(tmp_path: Path) -> None:
    """Of 80 answers 60 are good and 20 are bad; 80 more are called both, and are left out."""
    kto = {**BASES["kto"], "data": {"preferences": "rows.jsonl"}}
    rows = [answer(n, n < 60) for n in range(80)]
    rows += [answer(n, label) for n in range(100, 140) for label in (True, False)]
    found = made(tmp_path, kto, rows)
    decisions = found.plan.stages[0].decisions
    assert (decisions["examples"].value, decisions["true_share"].value) == (80, 0.75)
    assert decisions["true_share"].because == "the labels of 80 sampled rows that preparation keeps"
    assert decisions["undesirable_weight"].value == 2.6
    (told,) = [one for one in found.diagnostics if one.code == "W0552"]
    assert told.notes == ("prepare_data.py leaves out all of them, and counts them as `contradictory`",)


def test_labels_of_which_preparation_keeps_one_kind_are_refused(tmp_path: Path) -> None:
    kto = {**BASES["kto"], "data": {"preferences": "rows.jsonl"}}
    rows = [*(answer(n, True) for n in range(30)), answer(0, False)]
    (refused,) = [found for found in made(tmp_path, kto, rows).diagnostics if found.code == "E0304"]
    assert refused.labels[0].message == "`label` is true in all 29 rows that preparation keeps"
    both = [answer(n, label) for n in range(30) for label in (True, False)]
    none_left = "data.preferences has too few rows to hold out some of them"
    assert titles(made(tmp_path, kto, both), "E0304") == [none_left]


def test_few_duplicates_are_not_warned_about(tmp_path: Path) -> None:
    found = made(tmp_path, SFT, [asked(n % 185) for n in range(200)])
    assert titles(found, "W0553") == []
    assert "of 200 rows, 15 are exact duplicates" in found.plan.stages[0].decisions["examples"].because
    fewer = made(tmp_path, SFT, [asked(n % 95) for n in range(100)]).plan.stages[0].decisions["examples"]
    assert fewer.value == 100 and "duplicates" not in fewer.because


@pytest.mark.parametrize("rows", [100, 40])
def test_duplicates_of_rows_whose_number_is_stated_are_not_counted_as_unread(tmp_path: Path, rows: int) -> None:
    recipe = with_key(SFT, "data.train", [{"path": "rows.jsonl", "examples": rows}])
    found = made(tmp_path, recipe, [asked(n % 40) for n in range(100)])
    (told,) = [one for one in found.diagnostics if one.code == "W0553"]
    assert told.notes == ("prepare_data.py keeps one row of each, and counts the others as `duplicates`",)
    assert found.plan.stages[0].decisions["examples"].value == rows


def test_rows_that_are_taken_of_a_long_file_are_counted_without_duplicates(tmp_path: Path) -> None:
    recipe = with_key(SFT, "data.train", [{"path": "rows.jsonl", "take": 100}])
    found = made(tmp_path, recipe, [asked(n % 40, "So. " * 500) for n in range(3_000)])
    assert [one.notes[0].count("not all") for one in found.diagnostics if one.code == "W0553"] == [0]
    assert found.plan.stages[0].decisions["examples"].value == 40


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "tiiuae/Falcon3-1B-Instruct"])
def test_the_plan_counts_no_rows_that_teach_nothing(tmp_path: Path, model: str) -> None:
    """Of 60 conversations 15 have no answer, 10 an empty one and 5 ask nothing; of 60 pairs 20 have an empty one."""
    said = ["So."] * 30 + [""] * 10 + [None] * 15 + ["So."] * 5
    turns = [[{"role": "user", "content": f"Why {n}?" * (n < 55)}] for n in range(60)]
    turns = [
        asks + [{"role": "assistant", "content": answer}] * (answer is not None)
        for asks, answer in zip(turns, said, strict=True)
    ]
    found = made(tmp_path, with_key(SFT, "model.name", model), [{"messages": talk} for talk in turns])
    decisions = found.plan.stages[0].decisions
    assert {id: decisions[id].value for id in ("examples", "source_rows")} == {"examples": 30, "source_rows": 30}
    assert (
        "of 60 rows, 30 have no answer or ask nothing: prepare_data.py leaves them out" in decisions["examples"].because
    )
    both = [pair(n, "So." * (n > 19), "No.") for n in range(60)]
    assert made(tmp_path, DPO, both).plan.stages[0].decisions["examples"].value == 40


@pytest.mark.parametrize("part", [0, 20])
def test_answers_that_say_nothing_are_no_rows(tmp_path: Path, part: int) -> None:
    """Where every answer becomes a row, the other answer of the conversation stays."""
    rows = [talk(n, n) for n in range(60)]
    for row in rows[:part]:
        row["messages"][3]["content"] = ""
    decisions = made(tmp_path, APART, [*rows, THOUGHT]).plan.stages[0].decisions
    assert decisions["examples"].value == 120 - part


def test_conversations_of_which_no_answer_stays_are_told(tmp_path: Path) -> None:
    rows = [talk(n, n) for n in range(30)]
    for row in rows:
        row["messages"][0]["content"] = ""
    recipe = with_key(APART, "data.loss_on", "last-answer")
    (told,) = titles(made(tmp_path, recipe, rows), "W0542")
    assert told == "prepare_data.py will stop: 30 of 30 rows of data.train ask nothing"


def test_a_row_of_two_sources_counts_where_it_weighs_most(tmp_path: Path) -> None:
    made(tmp_path, SFT, [asked(n) for n in range(100)], "other.jsonl")
    sources = ["other.jsonl", {"path": "rows.jsonl", "weight": 2}]
    found = made(tmp_path, with_key(SFT, "data.train", sources), [asked(n) for n in range(50)])
    decisions = found.plan.stages[0].decisions
    assert (decisions["examples"].value, decisions["source_rows"].value) == (150, 100)


def talk(begins: int, ends: int) -> dict[str, Any]:
    """A conversation of two answers, of which the first may be that of many others."""
    turns = [("user", f"Why {begins}?"), ("assistant", "So."), ("user", f"And {ends}?"), ("assistant", "So, too.")]
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


APART = with_key(with_key(SFT, "data.reasoning", "keep"), "model.name", "Qwen/Qwen3-8B")
THOUGHT = {"messages": [*talk(7, 7)["messages"][:1], {"role": "assistant", "content": "<think>Hm.</think>So."}]}


def test_the_plan_counts_answers_after_one_beginning_once(tmp_path: Path) -> None:
    """70 conversations with 20 beginnings, and an empty answer to one more question: 90 rows and one with a thought,
    as `convert` of prepare_data.py counts them."""
    mute = talk(7, 300)
    mute["messages"][3]["content"] = " "
    rows = [*(talk(n % 20, n) for n in range(70)), mute, THOUGHT]
    stage = made(tmp_path, APART, rows).plan.stages[0]
    rows_there, answers = stage.decisions["data_rows"], stage.decisions["examples"]
    assert (rows_there.value, answers.value, stage.decisions["source_rows"].value) == (72, 91, 91)
    assert "2 answers in each of 72 conversations" in answers.because
    lost = "51 are exact duplicates and 1 are empty or to no question: prepare_data.py leaves them out"
    assert f"of 143 answers, {lost}" in answers.because
    part = next(part for part in stage.parts if part.name == "data preparation")
    assert part.because == "prepare_data.py makes 91 rows of 72"


def test_answers_that_stay_are_as_long_as_they_are(tmp_path: Path) -> None:
    """Beginnings that are left out make the others longer on average; whole conversations repeat nothing."""
    same, apart = ([talk(n % times, n) for n in range(100)] + [THOUGHT] for times in (1, 100))
    few, all = (made(tmp_path, APART, rows).plan.stages[0].decisions for rows in (same, apart))
    assert few["tokens_per_example"].value > all["tokens_per_example"].value
    assert (few["examples"].value, all["examples"].value) == (100, 200)
    whole = made(tmp_path, with_key(APART, "data.reasoning", "template"), same).plan.stages[0].decisions
    assert whole["examples"].value == 100 and "duplicates" not in whole["examples"].because


def test_answers_are_counted_by_rows_where_only_some_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipec.facts.rehearsal.all_read", lambda sources: False)
    found = made(tmp_path, APART, [*(talk(n % 20, n) for n in range(100)), THOUGHT]).plan.stages[0].decisions
    assert found["examples"].value == 200


def test_what_nobody_asked_is_no_answer_and_a_completion_may_be_empty(tmp_path: Path) -> None:
    """Of 50 questions below a system prompt 10 are empty, and a row ends as it began."""
    system = {"role": "system", "content": "Be kind."}
    chat = [talk(n % 20, n)["messages"] for n in range(100)]
    mute = [[system, {"role": "user", "content": "" if n < 10 else f"{n}?"}, chat[0][1]] for n in range(50)]
    given = [{"messages": turns} for turns in (*chat, *mute)]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    rows = [{"prompt": chat[0][:1], "completion": chat[0][1:2] if n else chat[0][:1]} for n in range(20)]
    recipe = with_key(APART, "data", {"train": ["chat.jsonl", "rows.jsonl"]})
    found = made(tmp_path, with_key(recipe, "model.name", "tiiuae/Falcon3-1B-Instruct"), rows)
    assert found.plan, [str(finding) for finding in found.diagnostics]
    assert found.plan.stages[0].decisions["examples"].value == 20 + 100 + 40


def test_prompts_that_are_judged_otherwise_are_no_duplicates(tmp_path: Path) -> None:
    recipe = with_key(BASES["grpo"], "data", {"prompts": "rows.jsonl"})
    assert titles(made(tmp_path, recipe, [{"prompt": "Add.", "sum": n} for n in range(40)]), "W0553") == []
    assert titles(made(tmp_path, recipe, [{"prompt": "Add.", "sum": n % 20} for n in range(40)]), "W0553") != []


def test_the_first_row_without_an_answer_is_the_first_by_place(tmp_path: Path) -> None:
    def talk(number: int, answer: str) -> dict[str, Any]:
        return {"conversations": [{"from": "human", "value": f"{number}?"}, {"from": "gpt", "value": answer}]}

    rows = [talk(n, "" if n == 4 else "So.") for n in range(60)]
    rows[9] = {"conversations": []}
    found = [found for found in made(tmp_path, SFT, rows).diagnostics if found.code == "W0542"]
    assert [one.labels[0].message for one in found] == ["the first is rows.jsonl:5"]
    assert found[0].title.startswith("2 of 60 ")


@pytest.mark.parametrize(
    "row",
    [asked(1, 42), {"messages": [{"role": "user", "content": "1?"}, {"role": "assistant", "content": 0.5}]}],
)
def test_numbers_that_are_answers_are_refused_with_a_way_out(tmp_path: Path, row: dict[str, Any]) -> None:
    texts = json.loads(json.dumps(row).replace("42", '"42"').replace("0.5", '"0.5"'))
    found = [found for found in made(tmp_path, SFT, [texts] * 4 + [row]).diagnostics if found.code == "E0304"]
    assert found[0].help[-1].startswith("write numbers as text: `python3 -c ")


@pytest.mark.parametrize("field", ["train", "weight"])
def test_answers_that_are_not_learned_are_counted(tmp_path: Path, field: str) -> None:
    turns = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "So."}]
    first = [{**turns[0], "content": "Why {n}?"}, {**turns[1], field: False if field == "train" else 0}]
    rows = [{"messages": json.loads(json.dumps(first).replace("{n}", str(n))) + turns} for n in range(50)]
    found = made(tmp_path, SFT, rows)
    told = f"50 of 100 sampled answers are not learned, as their `{field}` says"
    assert found.plan.stages[0].decisions["unlearned_answers"].value == told
    readme = next(file.text for file in found.files if file.path == "README.md")
    assert told.replace("`", "") in readme
    all_learned = [
        {"messages": [{k: v for k, v in turn.items() if k != field} for turn in row["messages"]]} for row in rows
    ]
    assert "unlearned_answers" not in made(tmp_path, SFT, all_learned).plan.stages[0].decisions
