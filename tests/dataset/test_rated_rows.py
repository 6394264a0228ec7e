"""Rows with one answer and a rating of it: those without one are left out, and no rating is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import with_key
from test_published import DPO as ALIGN
from test_published import REWARD, advised, passes, ran

DPO = with_key(ALIGN, "alignment.method", "dpo")
ROWS = 390
Rows = list[dict[str, Any]]
UNRATED: dict[str, dict[str, Any]] = {
    "null": {"rating": None},
    "missing": {},
    "word": {"rating": "n/a"},
    "empty": {"rating": ""},
    "NaN": {"rating": float("nan")},
}


def _rows(text: bool = False, alone: bool = False) -> Rows:
    """Three answers to each of 130 prompts, rated from 1 to 3; or one answer to each."""
    return [
        {
            "prompt": f"Why {n if alone else n // 3}?",
            "response": f"Answer {n}.",
            "rating": str(n % 3 + 1) if text else n % 3 + 1,
        }
        for n in range(ROWS)
    ]


@pytest.mark.parametrize("recipe", [DPO, REWARD], ids=["dpo", "reward"])
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("unrated", UNRATED)
def test_rows_without_a_rating_are_left_out_and_counted(
    tmp_path: Path, unrated: str, text: bool, recipe: dict[str, Any]
) -> None:
    rows = _rows(text)
    for number in (0, 44):  # the worst answer to one prompt, the best one to another
        rows[number] = {name: rows[number][name] for name in ("prompt", "response")} | UNRATED[unrated]
    (line,) = advised(tmp_path, recipe, rows)
    assert f"leave out rows without a rating (2 of {ROWS} sampled)" in line
    ran(tmp_path, line)
    made = passes(tmp_path, recipe)
    assert len(made) == ROWS // 3
    assert made[0] == {"prompt": "Why 0?", "chosen": "Answer 2.", "rejected": "Answer 1."}
    assert made[14] == {"prompt": "Why 14?", "chosen": "Answer 43.", "rejected": "Answer 42."}


def test_a_row_without_a_rating_behind_the_sample_does_not_stop_the_command(tmp_path: Path) -> None:
    (line,) = advised(tmp_path, REWARD, _rows())
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(
            '{"prompt": "Why 0?", "response": "None.", "rating": null}\n{"prompt": "Why 0?", "response": "So."}\n'
        )
    ran(tmp_path, line)
    assert len(passes(tmp_path, REWARD)) == ROWS // 3


def test_a_column_of_many_words_rates_nothing(tmp_path: Path) -> None:
    rows = [row | {"rating": row["rating"] if n % 9 else f"word {n}"} for n, row in enumerate(_rows())]
    assert not any("groups" in line for line in advised(tmp_path, REWARD, rows))


@pytest.mark.parametrize(
    ("rating", "key"),
    [({"thumbs_up": [True, False]}, "label"), ({"rating": ["good", "bad"]}, "label"), ({"rating": [1, 2, 3]}, ">= 3")],
    ids=["thumbs", "words", "numbers"],
)
@pytest.mark.parametrize("recipe", [DPO, REWARD], ids=["dpo", "reward"])
def test_answers_with_a_rating_are_never_taken_for_rows_to_imitate(
    tmp_path: Path, rating: dict[str, list[Any]], key: str, recipe: dict[str, Any]
) -> None:
    ((name, values),) = rating.items()
    rows = [
        {each: row[each] for each in ("prompt", "response")} | {name: values[n % len(values)]}
        for n, row in enumerate(_rows(alone=True))
    ]
    lines = advised(tmp_path, recipe, rows)
    assert not any("instruct" in line for line in lines)
    assert any('method = "kto"' in line and key in line for line in lines)
    assert any("two answers to one prompt" in line for line in lines)


def test_rows_without_a_rating_column_are_rows_to_imitate(tmp_path: Path) -> None:
    rows = [{"prompt": row["prompt"], "response": row["response"], "page": n} for n, row in enumerate(_rows())]
    assert any('goal.task = "instruct"' in line for line in advised(tmp_path, REWARD, rows))
