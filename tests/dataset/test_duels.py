"""Two answers side by side, and a column that names the better one: pairs of JSON lines and of CSV."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled

from recipec.dataset.duels import duel_of
from recipec.diagnostics.model import Diagnostic

Rows = list[dict[str, Any]]
SPELLED: dict[str, tuple[tuple[str, str], str, tuple[Any, Any, Any]]] = {
    "letters": (("response_a", "response_b"), "winner", ("a", "b", "tie")),
    "capitals": (("answer_a", "answer_b"), "winner", ("A", "B", "tie")),
    "models": (("response_a", "response_b"), "preferred", ("model_a", "model_b", "tie")),
    "columns": (("output_a", "output_b"), "human_preference", ("output_a", "output_b", "")),
    "numbers": (("response_1", "response_2"), "winner", (1, 2, 0)),
    "floats": (("response_1", "response_2"), "winner", (1.0, 2.0, None)),
    "no joint": (("response1", "response2"), "better", ("1", "2", "0")),
}


def duels(sides: tuple[str, str], judge: str, values: Sequence[Any]) -> Rows:
    return [
        {"question": f"Why {n}?", sides[0]: f"First of {n}.", sides[1]: f"Second of {n}.", judge: values[n % 3]}
        for n in range(60)
    ]


def written(folder: Path, file: str, rows: Rows) -> None:
    with (folder / file).open("w", newline="") as target:
        if file.endswith(".csv"):
            writer = csv.DictWriter(target, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            target.write("".join(json.dumps(row) + "\n" for row in rows))


def dpo(file: str, **keys: Any) -> Tables:
    return {**BASES["dpo-full"], "data": {"preferences": file, **keys}}


def told(folder: Path, recipe: Tables, code: str) -> list[Diagnostic]:
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code == code]


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("way", SPELLED)
def test_pairs_are_made_by_the_column_that_names_the_winner(tmp_path: Path, way: str, file: str) -> None:
    sides, judge, values = SPELLED[way]
    written(tmp_path, file, duels(sides, judge, values))
    (found,) = told(tmp_path, dpo(file), "E0305")
    (line,) = found.help
    assert f"make a pair of each row by its `{judge}`" in line and "(20 of 60 sampled)" in line
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    made = "rows.new.jsonl"
    pairs = [json.loads(line) for line in (tmp_path / made).read_text().splitlines()]
    assert [*pairs[0].values()] == ["Why 0?", "First of 0.", "Second of 0."]
    assert [*pairs[1].values()] == ["Why 1?", "Second of 1.", "First of 1."] and len(pairs) == 40
    assert not [one for one in compiled(tmp_path, dpo(made)).diagnostics if one.code[0] == "E"]


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("way", SPELLED)
def test_columns_against_the_winner_are_an_error(tmp_path: Path, way: str, file: str) -> None:
    sides, judge, values = SPELLED[way]
    written(tmp_path, file, duels(sides, judge, values))
    columns = {"prompt": "question", "chosen": sides[0], "rejected": sides[1]}
    (found,) = told(tmp_path, dpo(file, columns=columns), "E0308")
    assert f"`{judge}` names `{sides[1]}`, the rejected answer, in 20 of 60 sampled rows" in found.labels[0].message
    assert "make a pair of each row" in found.help[0] and "remove `columns`" in found.help[0]
    assert not told(tmp_path, dpo(file, columns=columns), "W0516")
    assert not told(tmp_path, dpo(file, columns=columns, ignore=[judge]), "E0308")


def test_columns_with_the_winner_are_none(tmp_path: Path) -> None:
    rows = duels(("response_a", "response_b"), "winner", ("a", "a", "a"))
    written(tmp_path, "rows.jsonl", rows)
    columns = {"prompt": "question", "chosen": "response_a", "rejected": "response_b"}
    assert not told(tmp_path, dpo("rows.jsonl", columns=columns), "E0308")


def test_numbers_that_may_count_from_zero_name_no_side() -> None:
    assert duel_of(duels(("response_1", "response_2"), "winner", (0, 1, 1))) is None


def test_rated_answers_of_csv_become_pairs(tmp_path: Path) -> None:
    rows = [{"prompt": f"Why {n // 2}?", "response": f"Answer {n}.", "helpfulness": (9, 10)[n % 2]} for n in range(80)]
    written(tmp_path, "rows.csv", rows)
    (found,) = told(tmp_path, dpo("rows.csv"), "E0305")
    subprocess.run(found.help[0].split("`")[-2], shell=True, cwd=tmp_path, check=True)
    pairs = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert len(pairs) == 40 and pairs[0] == {"prompt": "Why 0?", "chosen": "Answer 1.", "rejected": "Answer 0."}
