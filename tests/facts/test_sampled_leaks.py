"""Questions of held-out files that training rows ask, too, are told of the rows that a build reads of large files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.dataset.sample import WHOLE_ROWS
from recipec.diagnostics.model import Diagnostic

RECIPE: Tables = {**BASES["lora-single"], "data": {"train": "train.jsonl", "eval": "eval.jsonl"}}


def write(file: Path, talks: list[list[str]]) -> None:
    roles = ("user", "assistant")
    rows = [[{"role": roles[n % 2], "content": text} for n, text in enumerate(talk)] for talk in talks]
    file.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))


def found(folder: Path, recipe: Tables = RECIPE) -> list[Diagnostic]:
    return [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code == "W0554"]


@pytest.mark.parametrize("shared", [0, 4, 190])
def test_shared_questions_among_sampled_rows_are_told(tmp_path: Path, shared: int) -> None:
    write(tmp_path / "train.jsonl", [[f"Why {n}?", f"So {n}."] for n in range(WHOLE_ROWS + 200)])
    asked = [f"Why {n}?" for n in range(shared)] + [f"When {n}?" for n in range(200 - shared)]
    write(tmp_path / "eval.jsonl", [[question, "No."] for question in asked])
    told = found(tmp_path)
    title = f"{shared} of {WHOLE_ROWS} sampled rows of data.train ask what rows of data.eval ask"
    assert [one.title for one in told] == [title] * bool(shared)
    assert [any("allow" in line for line in one.help) for one in told] == [shared == 4] * bool(shared)


def test_a_beginning_that_rows_may_teach_which_were_not_read_is_no_leak(tmp_path: Path) -> None:
    """Of all rows that a build reads it is one, where no other row teaches it."""
    write(tmp_path / "eval.jsonl", [["Hi!", "Hello.", f"Why {n}?", "No."] for n in range(100)])
    talks = [["Hi!", "Hello there."], *([f"When {n}?", f"So {n}."] for n in range(WHOLE_ROWS + 200))]
    write(tmp_path / "train.jsonl", talks)
    assert not found(tmp_path)
    write(tmp_path / "train.jsonl", talks[:100])
    assert [one.title for one in found(tmp_path)] == ["1 of 100 rows of data.train ask what rows of data.eval ask"]


def test_sampled_rows_for_evaluation_are_compared_with_the_test(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", [[f"When {n}?", "So."] for n in range(100)])
    write(tmp_path / "eval.jsonl", [[f"Why {n}?", "No."] for n in range(WHOLE_ROWS + 200)])
    write(tmp_path / "test.jsonl", [[f"Why {n}?", "Yes."] for n in range(3)])
    title = f"3 of {WHOLE_ROWS} sampled rows of data.eval ask what rows of data.test ask"
    assert [one.title for one in found(tmp_path, with_key(RECIPE, "data.test", "test.jsonl"))] == [title]
