"""Traced runs whose objects are written as text: refused, and taken apart by the told command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_published import ran, said
from test_talks_as_text import findings, refused

Row = dict[str, Any]
READ = {"prompt": [said("user", "Why 3?")], "completion": [said("assistant", "So it's 3.")]}
TALK = {"messages": [*READ["prompt"], *READ["completion"]]}


def _runs(asked: Callable[[int], Any], answered: Callable[[int], Any], written: Callable[[Any], str]) -> list[Row]:
    return [{"inputs": written(asked(n)), "outputs": written(answered(n))} for n in range(30)]


def _question(number: int) -> Row:
    return {"question": f"Why {number}?"}


def _turns(number: int) -> list[Row]:
    return [said("user", f"Why {number}?")]


def _turn(number: int) -> Row:
    return said("assistant", f"So it's {number}.")


def _answer(number: int) -> Row:
    return {"answer": f"So it's {number}."}


RUNS = [
    (_question, _answer, READ),
    (lambda n: {"messages": _turns(n)}, _answer, READ),
    (_turns, _turn, TALK),
    (_turns, lambda n: [*_turns(n), _turn(n)], TALK),
    (lambda n: {"messages": [_turns(n)]}, lambda n: {"generations": [[{"text": f"So it's {n}."}]]}, READ),
]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rows_of(folder: Path, ending: str) -> Iterator[Row]:
    file = folder / "rows.new.jsonl"
    return map(json.loads, file.read_text().splitlines())


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("written", [json.dumps, str], ids=["JSON", "Python"])
@pytest.mark.parametrize(("asked", "answered", "made"), RUNS)
@pytest.mark.parametrize("named", [False, True], ids=["columns are not named", "columns are named"])
def test_objects_as_text_are_taken_apart_by_the_told_command(
    tmp_path: Path,
    ending: str,
    written: Callable[[Any], str],
    asked: Callable[[int], Any],
    answered: Callable[[int], Any],
    made: Row,
    named: bool,
) -> None:
    columns = {"columns": {"prompt": "inputs", "completion": "outputs"}} if named else {}
    rows = _runs(asked, answered, written)
    rows[7]["outputs"] = ""
    (found,) = refused(tmp_path, rows, ending, **columns)
    assert found.code == "E0305" and not any("columns =" in line for line in found.help)
    assert found.help[0].endswith(", and remove `prompt` and `completion` from `columns`") == named
    ran(tmp_path, found.help[0].removesuffix(", and remove `prompt` and `completion` from `columns`"))
    assert [*_rows_of(tmp_path, ending)][3] == made
    assert not findings(tmp_path, "rows.new.jsonl")


@pytest.mark.parametrize(
    ("asked", "answered", "data"),
    [
        (lambda n: f"Why {n}?", _answer, {}),
        (_question, lambda n: f"So {n}.", {}),
        (_question, lambda n: {"name": f"N{n}", "age": n}, {}),
        (_question, lambda n: {"age": n}, {}),
        (_question, lambda n: {f"key {n}": "known"}, {}),
        (_question, _answer, {"format": "prompt-completion"}),
    ],
    ids=["an answer alone", "a question alone", "fields", "a number", "other names", "stated"],
)
def test_json_that_is_the_answer_is_learned_as_it_stands(
    tmp_path: Path, asked: Callable[[int], Any], answered: Callable[[int], Any], data: Row
) -> None:
    columns = {"prompt": "inputs", "completion": "outputs"}
    assert not refused(tmp_path, _runs(asked, answered, _text), "csv", columns=columns, **data)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_runs_that_failed_with_another_text_are_left_out_and_counted(tmp_path: Path, ending: str) -> None:
    rows = _runs(_question, lambda n: "Timeout" if n == 5 else _answer(n), _text)
    (found,) = refused(tmp_path, rows, ending)
    assert "without rows that hold other texts (1 of 30 sampled)" in found.help[0]
    ran(tmp_path, found.help[0])
    assert len([*_rows_of(tmp_path, ending)]) == 29


def test_answers_of_which_few_are_objects_are_learned_as_they_stand(tmp_path: Path) -> None:
    rows = _runs(_question, lambda n: f"So {n}." if n % 3 else _answer(n), _text)
    assert not refused(tmp_path, rows, "csv", columns={"prompt": "inputs", "completion": "outputs"})


def test_questions_of_two_columns_are_not_parted_from_one_of_them(tmp_path: Path) -> None:
    rows = [
        {"instruction": "Answer.", "input": json.dumps(_question(n)), "output": json.dumps(_answer(n))}
        for n in range(9)
    ]
    assert not refused(tmp_path, rows, "jsonl")
