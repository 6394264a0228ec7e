"""Ratings in several numbers: told where nothing reads them, with what keeps good rows or makes labels of them."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.dataset.scales import scales
from recipec.diagnostics.model import Diagnostic

Rows = list[dict[str, Any]]
NAN = float("nan")  # as pandas writes what is missing


def rated(values: list[Any], name: str = "rating") -> Rows:
    return [{"prompt": f"Why {n}?", "response": f"So {n} it is.", name: values[n % len(values)]} for n in range(60)]


def told(folder: Path, rows: Rows, recipe: Tables, file: str, code: str) -> list[Diagnostic]:
    """The findings of a code for the rows; null is an empty field in CSV."""
    with (folder / file).open("w", newline="") as target:
        if file.endswith(".csv"):
            writer = csv.DictWriter(target, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            target.write("".join(json.dumps(row) + "\n" for row in rows))
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code == code]


def sft(file: str) -> Tables:
    return {**BASES["lora-single"], "data": {"train": file}}


def kto(file: str, **keys: Any) -> Tables:
    return {**BASES["kto"], "data": {"preferences": file, **keys}}


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [5, None, 1, 3], [5, NAN, 1, 3]])
def test_ratings_that_nothing_reads_are_told_with_what_reads_them(
    tmp_path: Path, file: str, values: list[float | None]
) -> None:
    rows = rated(values)
    good = [row for row in rows if row["rating"] and row["rating"] >= 4]
    unrated = sum(row["rating"] is None or row["rating"] != row["rating"] for row in rows)
    (found,) = told(tmp_path, rows, sft(file), file, "W0562")
    assert f"{60 - unrated - len(good)} of 60 sampled rows are rated below" in str(found)
    keep, label = (line.split("`")[1] for line in found.help[:2])
    subprocess.run(keep, shell=True, cwd=tmp_path, check=True)
    text = (tmp_path / file.replace(".", ".new.")).read_text().splitlines()
    kept = [*csv.DictReader(text)] if file == "rows.csv" else [json.loads(line) for line in text]
    assert [row["response"] for row in kept] == [row["response"] for row in good]

    subprocess.run(label, shell=True, cwd=tmp_path, check=True)
    made = "rows.new.jsonl"
    labeled = [json.loads(line) for line in (tmp_path / made).read_text().splitlines()]
    assert [row["response"] for row in labeled if row["label"]] == [row["response"] for row in good]
    assert len(labeled) == 60 - unrated
    usual = compiled(tmp_path, kto(made, ignore=["rating"]), only_plan=True).diagnostics
    assert not [one for one in usual if one.code.startswith("E")]


@pytest.mark.parametrize(
    ("name", "values"),
    [("rating", [4, 5]), ("generated", [1, 2, 3]), ("error_score", [1, 2, 3]), ("likes", [*range(30)])],
    ids=["all good", "a word in another", "of bad answers", "counts"],
)
def test_what_is_no_scale_is_not_told(tmp_path: Path, name: str, values: list[int]) -> None:
    assert not told(tmp_path, rated(values, name), sft("rows.jsonl"), "rows.jsonl", "W0562")


NO_RATINGS = ("difficulty_score", "grade_level", "school_grade", "readability_grade", "language_score", "grade")
NO_RATINGS += ("similarity_score", "feedback_count", "num_likes", "votes")


@pytest.mark.parametrize("name", NO_RATINGS)
def test_names_that_measure_something_else_rate_no_answers(name: str) -> None:
    assert not scales(rated([1, 2, 3], name), [name])


RATINGS = ("rating", "score", "Stars", "csat", "feedback", "quality", "helpfulness", "answer_grade", "responseScore")


@pytest.mark.parametrize("name", [*RATINGS, "csat_score", "user_rating", "star_rating", "overall_quality"])
def test_names_that_rate_answers_do(name: str) -> None:
    assert scales(rated([1, 2, 3], name), [name])


def test_ratings_that_are_ignored_are_not_told(tmp_path: Path) -> None:
    recipe = with_key(sft("rows.jsonl"), "data.ignore", ["rating"])
    assert not told(tmp_path, rated([1, 2, 3]), recipe, "rows.jsonl", "W0562")


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
def test_a_scale_that_is_named_as_the_label_becomes_one(tmp_path: Path, file: str) -> None:
    recipe = kto(file, columns={"label": "csat"})
    (found,) = told(tmp_path, rated([1, 2, 3, 4, 5], "csat"), recipe, file, "E0304")
    line = next(line for line in found.help if line.startswith("`csat` holds numbers from 1 to 5"))
    subprocess.run(line.split("`")[3], shell=True, cwd=tmp_path, check=True)
    made = "rows.new.jsonl"
    labels = [json.loads(line)["label"] for line in (tmp_path / made).read_text().splitlines()]
    assert labels == [row["csat"] > 3 for row in rated([1, 2, 3, 4, 5], "csat")]


@pytest.mark.parametrize("value", [10**400, float("inf"), "1e400", True], ids=["huge", "inf", "text", "flag"])
def test_what_no_scale_has_makes_none_of_a_column(value: object) -> None:
    assert scales([{"rating": each} for each in (1, 2, 3, value)], ["rating"]) == []


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [5, None, 1, 3]])
@pytest.mark.parametrize("kind", ["messages", "instruction"])
def test_rated_conversations_are_labeled_with_their_last_answer_apart(
    tmp_path: Path, kind: str, values: list[int | None]
) -> None:
    rows: Rows = []
    for row in rated(values):
        talk = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["response"]}]
        said = {"messages": talk} if kind == "messages" else {"instruction": row["prompt"], "output": row["response"]}
        rows.append({**said, "rating": row["rating"]})
    (found,) = told(tmp_path, rows, sft("rows.jsonl"), "rows.jsonl", "W0562")
    (line,) = [line for line in found.help if "which answers are good" in line]
    assert '`task = "align"` under [goal]' in line and "`preferences` under [data]" in line
    subprocess.run(line.split("`")[1], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert [row["label"] for row in made] == [row["rating"] >= 4 for row in rows if row["rating"]]
    learned = compiled(tmp_path, kto("rows.new.jsonl"), only_plan=True).diagnostics
    assert not [one for one in learned if one.code[0] == "E" or one.code == "W0562"]
    left = f", and leave out rows without a rating{' (15 of 60 sampled)' * (None in values)}: `"
    assert left in line


PAIRS = [(True, False), ("good", "bad"), (1, 0), ("Up", "Down")]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("kind", ["labels", "conversations"])
def test_ratings_fill_in_labels_that_are_missing_and_no_others(
    tmp_path: Path, kind: str, pair: tuple[Any, Any]
) -> None:
    """A label that contradicts its rating stays; rows with neither are left out, which is said."""
    good, bad = pair
    rows = rated([5, 5, 5, 1, 2, None, 4], "score")
    for n, row in enumerate(rows):
        row["label"] = (good, bad, None)[n % 3]
        if kind == "conversations":
            said = {"user": row.pop("prompt"), "assistant": row.pop("response")}
            row["messages"] = [{"role": role, "content": text} for role, text in said.items()]
    lost = sum(row["label"] is None and row["score"] is None for row in rows)
    recipe, code = (kto("rows.jsonl"), "E0304") if kind == "labels" else (sft("rows.jsonl"), "W0562")
    (found,) = told(tmp_path, rows, recipe, "rows.jsonl", code)
    line = next(line for line in found.help if "good" in line and ".new.jsonl" in line and "label" in line)
    assert f" ({lost} of 60 sampled)" in line and "in place of" not in line
    subprocess.run(
        next(part for part in line.split("`") if " > rows.new" in part), shell=True, cwd=tmp_path, check=True
    )
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    kept = [row for row in rows if (row["label"], row["score"]) != (None, None)]
    words = {text.lower(): text for text in pair} if isinstance(good, str) else {}
    wanted = [(good if row["score"] > 3 else bad) if row["label"] is None else row["label"] for row in kept]
    assert [words.get(row["label"], row["label"]) for row in made] == wanted
    usual = compiled(tmp_path, kto("rows.new.jsonl", ignore=["score"]), only_plan=True).diagnostics
    assert not [one for one in usual if one.code[0] == "E" and one.code != "E0401"]


@pytest.mark.parametrize("value", [None, NAN])
def test_rows_without_a_number_of_a_scale_are_counted(tmp_path: Path, value: float | None) -> None:
    rows = rated([1, 2, 3, 4, value])
    (found,) = told(tmp_path, rows, kto("rows.jsonl"), "rows.jsonl", "E0305")
    (line,) = [line for line in found.help if "holds numbers" in line]
    assert ", and leave out rows without a rating (12 of 60 sampled), as in `" in line
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert [row["label"] for row in made] == [False, False, True, True] * 12


@pytest.mark.parametrize("values", [[1, 2, 3, "4", 5], ["1", "2.5", "", "4", "5"]], ids=["one text", "all texts"])
@pytest.mark.parametrize("file", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize("name", ["score", "error_score"])
def test_numbers_that_are_written_as_texts_become_labels(tmp_path: Path, values: Rows, file: str, name: str) -> None:
    rows = rated(values, name)
    (found,) = told(tmp_path, rows, kto(file), file, "E0305")
    (line,) = [line for line in found.help if "holds numbers from 1 to 5" in line]
    subprocess.run(line.split("`")[3], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    numbers = [float(row[name]) for row in rows if row[name] != ""]
    good = [number < 3 if name == "error_score" else number > 3 for number in numbers]
    assert [row["label"] for row in made] == good


def test_a_scale_has_eleven_numbers_at_most() -> None:
    assert scales(rated([*range(11)]), ["rating"]) and not scales(rated([*range(12)]), ["rating"])


VOTES = [1, -1, 0, 0, None]


def chats(values: list[int | None]) -> Rows:
    rows = rated(values, "thumb")
    talk = [[{"role": "user", "content": row.pop("prompt")}] for row in rows]
    answers = [[{"role": "assistant", "content": row.pop("response")}] for row in rows]
    return [{"messages": asked + said} | row for asked, said, row in zip(talk, answers, rows, strict=True)]


@pytest.mark.parametrize("values", [VOTES, VOTES[:4]], ids=["some empty", "all filled"])
def test_zero_between_votes_for_and_against_is_no_bad_answer(tmp_path: Path, values: list[int | None]) -> None:
    rows = chats(values)
    (found,) = told(tmp_path, rows, kto("rows.jsonl"), "rows.jsonl", "E0305")
    (line,) = found.help
    zeros = sum(row["thumb"] == 0 for row in rows)
    assert f'rows with 0, which is taken for "not rated" ({zeros} of 60 sampled)' in line
    subprocess.run(line.split("`")[3], shell=True, cwd=tmp_path, check=True)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert [row["label"] for row in made] == [row["thumb"] == 1 for row in rows if row["thumb"]]


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
def test_votes_beside_plain_answers_leave_unrated_rows_out(tmp_path: Path, file: str) -> None:
    rows = rated(VOTES, "feedback")
    (found,) = told(tmp_path, rows, sft(file), file, "W0562")
    (line,) = [line for line in found.help if "which answers are good" in line]
    assert "(24 of 60 sampled)" in line
    subprocess.run(line.split("`")[1], shell=True, cwd=tmp_path, check=True)
    made = tmp_path / "rows.new.jsonl"
    labels = [json.loads(line)["label"] for line in made.read_text().splitlines()]
    assert labels == [row["feedback"] == 1 for row in rows if row["feedback"]]


def test_a_middle_that_is_not_zero_is_rated(tmp_path: Path) -> None:
    (found,) = told(tmp_path, chats([0, 1, 2]), kto("rows.jsonl"), "rows.jsonl", "E0305")
    assert "not rated" not in found.help[0]
