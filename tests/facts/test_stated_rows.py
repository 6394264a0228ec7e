"""A stated number of rows is held against the files: a plan for 200,000 rows of a file of 300 is said aloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic


def told(folder: Path, rows: int, sources: Any = "rows.jsonl", **keys: Any) -> list[Diagnostic]:
    """W0555 for a file of that many rows."""
    lines = [json.dumps({"prompt": f"Why {n}?", "completion": "So."}) for n in range(rows)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    recipe = with_key(BASES["lora-single"], "data", {"train": sources, "tokens_per_example": 40} | keys)
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code == "W0555"]


def test_a_number_far_from_the_files_is_told_with_both(tmp_path: Path) -> None:
    (found,) = told(tmp_path, 300, examples=200_000)
    assert found.title == "`data.examples` is 200,000, and recipec finds 300 rows in the files"
    assert found.help[0] == "remove `data.examples`, and recipec counts the rows"
    assert [label.message for label in found.labels] == ["200,000 rows", "300 rows in the files"]


@pytest.mark.parametrize(("stated", "differs"), [(None, 0), (270, 1), (275, 0), (300, 0), (329, 0), (331, 1)])
def test_up_to_a_tenth_is_no_difference(tmp_path: Path, stated: int | None, differs: int) -> None:
    keys = {} if stated is None else {"examples": stated}
    assert len(told(tmp_path, 300, **keys)) == differs


@pytest.mark.parametrize(("rows", "differs"), [(99, 0), (100, 1)])
def test_a_few_rows_show_the_format_alone(tmp_path: Path, rows: int, differs: int) -> None:
    assert len(told(tmp_path, rows, examples=5_000)) == differs


@pytest.mark.parametrize(("files", "size", "differs"), [(9, 50, 0), (10, 50, 1), (3, 50, 0), (3, 500_000, 1)])
def test_many_documents_or_long_ones_are_what_is_trained_on(
    tmp_path: Path, files: int, size: int, differs: int
) -> None:
    """A text file is a row: forty books are no sample of a format."""
    for n in range(files):
        (tmp_path / f"{n}.md").write_text(f"Chapter {n}. " + "On and on. " * (size // 11))
    data = {"train": "*.md", "examples": 2_000, "max_length": 512}
    recipe = with_key(BASES["text"], "data", data)
    found = compiled(tmp_path, recipe, only_plan=True).diagnostics
    assert [each.code for each in found].count("W0555") == differs


def test_rows_of_a_recipe_that_states_all_are_compared_too(tmp_path: Path) -> None:
    assert told(tmp_path, 300, format="prompt-completion", examples=200_000)
    assert not told(tmp_path, 300, "elsewhere.jsonl", format="prompt-completion", examples=200_000)
    assert not told(tmp_path, 300, ["rows.jsonl", {"hub": "o/r"}], format="prompt-completion", examples=200_000)


def test_a_source_is_compared_with_its_own_number(tmp_path: Path) -> None:
    (found,) = told(tmp_path, 300, [{"path": "rows.jsonl", "examples": 4_000}])
    assert found.title == "`examples` of `rows.jsonl` is 4,000, and recipec finds 300 rows in the files"
    assert not told(tmp_path, 300, [{"path": "rows.jsonl", "examples": 310, "weight": 9}])
    assert not told(tmp_path, 300, [{"path": "rows.jsonl", "examples": 300, "take": 120}])


def test_rows_are_compared_as_they_are_taken_and_before_weights(tmp_path: Path) -> None:
    assert not told(tmp_path, 300, [{"path": "rows.jsonl", "weight": 4}], examples=300)
    assert told(tmp_path, 300, [{"path": "rows.jsonl", "weight": 4}], examples=1_200)
    assert not told(tmp_path, 300, [{"path": "rows.jsonl", "take": 120}], examples=120)
    (found,) = told(tmp_path, 300, [{"path": "rows.jsonl", "take": 120}], examples=300)
    assert found.title == "`data.examples` is 300, and recipec finds 120 rows that are taken of the files"


def test_a_number_without_duplicates_is_as_right_as_one_with_them(tmp_path: Path) -> None:
    lines = [json.dumps({"prompt": f"Why {n % 150}?", "completion": "So."}) for n in range(300)]
    (tmp_path / "twice.jsonl").write_text("\n".join(lines))
    assert not told(tmp_path, 0, "twice.jsonl", examples=150)
    assert not told(tmp_path, 0, "twice.jsonl", examples=300)
    assert told(tmp_path, 0, "twice.jsonl", examples=130)
    assert not told(tmp_path, 0, [{"path": "twice.jsonl", "examples": 150}])
    assert not told(tmp_path, 0, [{"path": "twice.jsonl", "examples": 300}])
    assert told(tmp_path, 0, [{"path": "twice.jsonl", "examples": 130}])
    assert told(tmp_path, 0, "twice.jsonl", examples=340)


def test_an_estimated_number_may_be_off_by_a_factor_of_two(tmp_path: Path) -> None:
    """Of a file beyond what is read."""
    line = json.dumps({"prompt": "Why {}?", "completion": "So. " * 2_000})
    (tmp_path / "long.jsonl").write_text("\n".join(line.replace("{}", str(n)) for n in range(1_000)))
    assert not told(tmp_path, 0, "long.jsonl", examples=1_800)
    assert not told(tmp_path, 0, "long.jsonl", examples=600)
    (found,) = told(tmp_path, 0, "long.jsonl", examples=2_200)
    assert "recipec finds about 1,0" in found.title
    assert told(tmp_path, 0, "long.jsonl", examples=400)
