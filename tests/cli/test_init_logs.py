"""`recipec init` for logs and exports as tools write them: what it proposes, or the command that makes rows of them."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLAGS = ("--gpu", "h100", "--model", "Qwen/Qwen2.5-7B-Instruct", "--yes")
GOOD, POOR = "Hold the button {} until the light is green.", "I do not know {}."
ASKED = {"role": "user", "content": "Why 0?"}
ANSWER = {"role": "assistant", "content": GOOD.format(0)}
COMMAND = re.compile("`((?:python3|jq) [^`]*)`")


def _langsmith(n: int) -> dict[str, Any]:
    return {"id": f"r{n}", "inputs": {"question": f"Why {n}?"}, "outputs": {"answer": GOOD.format(n)}}


def _langsmith_messages(n: int) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": f"Why {n}?"}]}
    return {"inputs": asked, "outputs": {"role": "assistant", "content": GOOD.format(n)}}


def _langfuse(n: int) -> dict[str, Any]:
    return {"input": {"query": f"Why {n}?"}, "output": GOOD.format(n), "scores": None}


def _argilla(n: int) -> dict[str, Any]:
    return {"instruction": f"Why {n}?", "generations": [POOR.format(n), GOOD.format(n), "?"], "ratings": [2, 5, None]}


MADE = {
    _langsmith: {"prompt": [ASKED], "completion": [ANSWER]},
    _langsmith_messages: {"prompt": [ASKED], "completion": [ANSWER]},
    _langfuse: {"prompt": [ASKED], "completion": [ANSWER]},
    _argilla: {"prompt": "Why 0?", "chosen": GOOD.format(0), "rejected": POOR.format(0)},
}


@pytest.fixture
def init_with(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def started(text: str, name: str = "rows.jsonl"):
        Path(name).write_text(text)
        return run("init", "new", "--data", name, *FLAGS)

    return started


def lines(row: Callable[[int], dict[str, Any]]) -> str:
    return "".join(json.dumps(row(n)) + "\n" for n in range(60))


def run_command(said: str) -> None:
    subprocess.run(["bash", "-c", COMMAND.findall(said)[0]], check=True)


@pytest.mark.parametrize("row", MADE)
def test_exports_lead_to_rows_that_init_takes(init_with, run, row) -> None:
    run_command(init_with(lines(row)).stderr)
    assert json.loads(Path("rows.new.jsonl").read_text().splitlines()[0]) == MADE[row]
    assert run("init", "new", "--data", "rows.new.jsonl", *FLAGS).exit_code == 0


@pytest.mark.parametrize("rating", [{"score": "good"}, [3, 5]])
def test_ratings_in_parts_are_no_answer(init_with, rating) -> None:
    thread = [{"author_id": 1, "body": "Why?"}]
    told = init_with(lines(lambda n: {"description": f"Why {n}?", "comments": thread, "satisfaction_rating": rating}))
    assert told.exit_code == 2 and 'completion = "satisfaction_rating"' not in told.stderr


def test_rows_within_one_object_on_one_line_are_taken_out(init_with, run) -> None:
    told = init_with(json.dumps({"data": [{"question": f"Why {n}?", "answer": "So."} for n in range(60)]}), "rows.json")
    assert "write its rows one a line: `jq -c '.data[]' rows.json > rows.new.jsonl`" in told.stderr
    Path("rows.new.jsonl").write_text("what the user has")
    told = run("init", "new", "--data", "rows.json", *FLAGS)
    assert "rows.json > rows.new2.jsonl`" in told.stderr


@pytest.mark.parametrize("rating", [("positive", "negative"), (True, False)])
def test_rated_conversations_lead_to_rows_that_kto_learns_from(init_with, run, rating) -> None:
    def row(n: int) -> dict[str, Any]:
        return {"messages": [ASKED | {"content": f"Why {n}?"}, ANSWER], "feedback": rating[n % 3 == 0]}

    told = init_with(lines(row))
    assert told.exit_code == 0 and "to learn which answers are good, by `feedback`" in told.stderr
    (line,) = (line for line in Path("new/recipe.toml").read_text().splitlines() if "by `feedback`" in line)
    assert '`task = "align"` under [goal]' in line
    run_command(line)
    Path("new/recipe.toml").unlink()
    assert run("init", "new", "--data", "rows.new.jsonl", *FLAGS).exit_code in (0, 1)
    with open("new/recipe.toml", "rb") as file:
        assert "preferences" in tomllib.load(file)["data"]


def test_a_question_whether_an_answer_helped_is_a_rating(init_with) -> None:
    rows = "".join(f"Why {n}?,So {n}.,{('Yes', 'No')[n % 3 == 0]}\n" for n in range(60))
    assert init_with(f"Question,Answer,Was this helpful?\n{rows}", "faq.csv").exit_code == 0
    with open("new/recipe.toml", "rb") as file:
        assert tomllib.load(file)["data"]["columns"]["label"] == "Was this helpful?"
