"""Questions whose answers stand beside them: SQuAD and RFT of OpenAI are refused with commands for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key, write_data
from test_published import MANY, SFT, Rows, advised, passes, ran, said

from recipec.cli.init_data import look
from recipec.dataset import UnknownFormat

GRPO: Tables = {
    **BASES["grpo"],
    "data": {"prompts": "rows.jsonl"},
    "alignment": {"reward": "judge.py:f"},
}
ONES = {"prompt": "Pump 1 moves water.\n\nWhat moves pump 1?", "completion": "water"}


def asked(number: int, **more: Any) -> dict[str, Any]:
    texts = ["water", "cold water"] if number % 5 else []
    answers = {"text": texts, "answer_start": [14] * len(texts)}
    passage = {"context": f"Pump {number} moves water.", "question": f"What moves pump {number}?"}
    return {"id": str(number), "title": "Pumps"} | passage | {"answers": answers} | more


def articles() -> dict[str, Any]:
    """The same as the file of SQuAD has them."""
    parts = []
    for row in map(asked, MANY):
        answers = [{"text": text, "answer_start": 14} for text in row["answers"]["text"]]
        question = {"id": row["id"], "question": row["question"], "answers": answers, "is_impossible": not answers}
        parts.append({"context": row["context"], "qas": [question]})
    return {"version": "2.0", "data": [{"title": "Pumps", "paragraphs": parts}]}


def judged_by(folder: Path, column: str) -> None:
    write_data(folder)
    (folder / "judge.py").write_text(f"def f(completions, {column}):\n    return [0.0 for _ in completions]\n")


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.parquet"])
def test_questions_about_passages_become_rows_with_an_answer(tmp_path: Path, file: str) -> None:
    (line,) = advised(tmp_path, SFT, [asked(number) for number in MANY], file)
    assert "without those that have none (80 of 400 sampled)" in line
    ran(tmp_path, line)
    rows = passes(tmp_path, SFT)
    assert (len(rows), rows[0]) == (320, ONES)


@pytest.mark.parametrize("recipe", [SFT, GRPO], ids=["sft", "grpo"])
def test_the_file_of_articles_becomes_rows(tmp_path: Path, recipe: Tables) -> None:
    judged_by(tmp_path, "answers")
    (tmp_path / "rows.json").write_text(json.dumps(articles()))
    part = next(iter(recipe["data"]))
    (error,) = [
        one
        for one in compiled(tmp_path, with_key(recipe, f"data.{part}", "rows.json")).diagnostics
        if one.code[0] == "E"
    ]
    ran(tmp_path, error.help[0])
    made = with_key(recipe, f"data.{part}", "rows.new.jsonl")
    assert not [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"]
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    assert first == (ONES if recipe is SFT else {"prompt": ONES["prompt"], "answers": ["water", "cold water"]})


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.csv"])
def test_a_passage_is_written_before_its_question(tmp_path: Path, file: str) -> None:
    judged_by(tmp_path, "gold")
    rows = [{"context": f"Pump {n} moves water.", "question": f"What moves pump {n}?", "gold": "water"} for n in MANY]
    lines = [json.dumps(row) for row in rows] if file == "rows.jsonl" else ["context,question,gold"]
    lines += [] if file == "rows.jsonl" else [",".join(row.values()) for row in rows]
    (tmp_path / file).write_text("\n".join(lines) + "\n")
    (error,) = [
        one for one in compiled(tmp_path, with_key(GRPO, "data.prompts", file)).diagnostics if one.code[0] == "E"
    ]
    assert error.code == "E0308"
    ran(tmp_path, error.help[0])
    made = f"rows.new.{file.rpartition('.')[2]}"
    found = compiled(tmp_path, with_key(GRPO, "data.prompts", made)).diagnostics
    assert not [one for one in found if one.code[0] == "E" or one.code == "W0516"]
    assert "Pump 1 moves water." in (tmp_path / made).read_text().replace("\\n", "\n").split("What moves pump 1?")[0]


def graded(answer: Any) -> Rows:
    talk = [said("system", "Be short."), said("user", "What is {} and 1?")]
    return [
        {
            "messages": [turn | {"content": turn["content"].format(number)} for turn in talk],
            "reference_answer": answer(number),
        }
        for number in MANY
    ]


def test_a_reference_becomes_the_answer_of_a_conversation(tmp_path: Path) -> None:
    learned, judged = advised(tmp_path, SFT, graded(lambda number: number + 1))
    ran(tmp_path, learned)
    first = passes(tmp_path, SFT)[0]
    assert first == {
        "messages": [said("system", "Be short."), said("user", "What is 0 and 1?"), said("assistant", "1")]
    }
    judged_by(tmp_path, "reference_answer")
    named = with_key(GRPO, "data.columns", {"prompt": "messages"})
    assert 'columns = { prompt = "messages" }' in judged and 'prompts = "rows.jsonl"' in judged
    assert not [one for one in compiled(tmp_path, named).diagnostics if one.code[0] == "E" or one.code == "W0516"]


def test_a_reference_of_several_fields_is_for_a_reward_alone(tmp_path: Path) -> None:
    (line,) = advised(tmp_path, SFT, graded(lambda number: {"value": number + 1, "unit": "m"}))
    assert line.startswith("to learn from answers that the model writes")


def test_of_prompts_it_is_said_what_reads_the_reference(tmp_path: Path) -> None:
    judged_by(tmp_path, "reference_answer")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in graded(str)))
    (error,) = [one for one in compiled(tmp_path, GRPO).diagnostics if one.code[0] == "E"]
    assert error.help == (
        'if they are prompts rows: `columns = { prompt = "messages" }` '
        "(a reward function reads `reference_answer` if it has a parameter of that name)",
    )


def test_init_offers_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(asked(number)) + "\n" for number in MANY))
    with pytest.raises(UnknownFormat) as told:
        look("rows.jsonl")
    assert [line.split(": `")[0].split(",")[0] for line in told.value.help] == [
        "answer each question about its passage with the first of its `answers`",
        "ask each question about its passage",
    ]
