"""A method and a row format are rows: the language has them all, once they are in the tables."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recipec.axes import METHODS

PROGRAM = Path(__file__).with_name("with_bco.py")
MARKED = {"prompt": "Why?", "completion": "So.", "vote": True}
PAIR = {"prompt": "Why?", "chosen": "So.", "rejected": "No."}
ROWS = {"marked": MARKED, "pairs": PAIR, "worded": MARKED | {"vote": "warm"}, "answers": {**MARKED, "vote": 1}}


def recipe(data: str, more: str = "", task: str = "align") -> str:
    """A recipe with these lines in [data], and these tables behind."""
    header = f'[recipe]\nname = "case"\n[goal]\ntask = "{task}"\n[model]\nname = "Qwen/Qwen3-8B"\n'
    return f'{header}[data]\n{data}\n[hardware]\ngpu = "h100"\n{more}'


MARKS, PAIRS = 'preferences = "marked.jsonl"', 'preferences = "pairs.jsonl"'
NAMED = '[alignment]\nmethod = "bco"\n'
OWN_STAGE = "[train.bco]\nlearning_rate = 1e-6\nlora.rank = 8\n"
TAKES_MARKS = "takes voted-answer rows holds preference rows"
# Recipe -> the formats of its sections.
FINE: dict[str, tuple[str, dict[str, str]]] = {
    "named": (
        recipe(f'{MARKS}\nformat = "voted-answer"', f"{NAMED}beta = 0.5\nvote_weight = 2\n{OWN_STAGE}"),
        {"preferences": "voted-answer"},
    ),
    "decided by the rows": (
        recipe(MARKS, "[alignment]\nvote_weight = 2\n"),
        {"preferences": "voted-answer"},
    ),
    "pairs are still pairs": (recipe(PAIRS, '[alignment]\nloss = "ipo"\n'), {"preferences": "preference"}),
    "in data.train": (recipe('train = "marked.jsonl"', NAMED), {"train": "voted-answer"}),
    "a mark beside answers": (recipe('train = "marked.jsonl"', "", "instruct"), {"train": "prompt-completion"}),
    "a format for one of two sections": (
        recipe(f'train = "answers.jsonl"\n{MARKS}\nformat = "voted-answer"'),
        {"train": "prompt-completion", "preferences": "voted-answer"},
    ),
}  # fmt: skip
# Recipe -> the errors: code, title and labels.
REFUSED = {
    "pairs for it": (
        recipe(PAIRS, NAMED),
        "E0305 the format of data.preferences is not recognized (pairs.jsonl:1 has the columns `prompt`, `chosen`, "
        "`rejected`: voted-answer needs `prompt`, `completion`, `vote` (data.columns can rename))",
    ),
    "pairs in data.train": (
        recipe('train = "pairs.jsonl"', NAMED),
        f"E0401 `alignment.method = bco` and the preference rows of `data.train` contradict each other ({TAKES_MARKS})",
    ),
    "its format for another task": (
        recipe('train = "marked.jsonl"\nformat = "voted-answer"', "", "instruct"),
        "E0401 `data.format = voted-answer` and `goal.task = instruct` contradict each other "
        "(this task takes chat, instruction, prompt-completion, text or token-ids rows conflicting value)",
    ),
    "its format for another method": (
        recipe(f'{MARKS}\nformat = "voted-answer"', '[alignment]\nmethod = "dpo"\n'),
        "E0401 `data.format = voted-answer` and `alignment.method = dpo` contradict each other "
        "(this method takes preference, chat, instruction, prompt-completion, text or token-ids rows conflicting "
        "value)",
    ),
    "no mark": (
        recipe('preferences = "worded.jsonl"', NAMED),
        "E0304 4 of 4 sampled rows of data.preferences cannot be used (worded.jsonl:1 and 3 other rows: `vote` holds "
        '"warm", where voted-answer rows hold true or false, or 1 or 0)',
    ),
    "a loss of another method": (
        recipe(MARKS, f'{NAMED}loss = "ipo"\n'),
        'E0401 `alignment.loss = "ipo"` belongs to dpo (recipec has it for dpo alone bco runs)',
    ),
    "a loss of another method, decided by the rows": (
        recipe(MARKS, '[alignment]\nloss = "ipo"\n'),
        'E0401 `alignment.loss = "ipo"` belongs to dpo (recipec has it for dpo alone holds voted-answer rows)',
    ),
    "a key of its own for another method": (
        recipe(PAIRS, '[alignment]\nmethod = "dpo"\nvote_weight = 2\n'),
        "E0401 `alignment.vote_weight` belongs to bco (recipec has it for bco alone dpo runs)",
    ),
    "a bound of its own": (
        recipe(MARKS, f"{NAMED}beta = 5\n"),
        "E0205 `alignment.beta` is 5 (must be more than 0 and at most 1 for bco bco runs)",
    ),
    "its stage for another task": (
        recipe('train = "answers.jsonl"', OWN_STAGE, "instruct"),
        "E0401 `train.bco` and `goal.task = instruct` contradict each other (this task has no such stage "
        "conflicting value)",
    ),
    "its stage for another method": (
        recipe(PAIRS, f'[alignment]\nmethod = "dpo"\n{OWN_STAGE}'),
        "E0401 `train.bco` and `alignment.method = dpo` contradict each other (this method has no such stage "
        "conflicting value)",
    ),
    "pairs cannot be told from marks on the Hub": (
        recipe('preferences = {hub = "org/name"}'),
        "E0305 the format of data.preferences is not stated (not read at compile time)",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the compiler says with the new rows; they are added in a process of their own, before it is imported."""
    folder = tmp_path_factory.mktemp("rows")
    for name, row in ROWS.items():
        other = row | {"vote": False, "completion": "No."} if row.get("vote") is True else row
        (folder / f"{name}.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(other)}\n" * 2)
    recipes = {name: text for name, (text, _) in (FINE | REFUSED).items()}
    done = subprocess.run(
        [sys.executable, PROGRAM], cwd=folder, input=json.dumps(recipes), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", FINE)
def test_its_recipes_are_accepted_and_its_rows_recognized(said: dict[str, Any], name: str) -> None:
    assert said["recipes"][name].get("formats") == FINE[name][1], said["recipes"][name]


def test_its_keys_are_decisions_of_its_stage(said: dict[str, Any]) -> None:
    wishes = said["recipes"]["named"]["wishes"]
    assert (wishes["train.learning_rate"], wishes["train.lora.rank"]) == (1e-6, 8)
    assert (wishes["alignment.beta"], wishes["alignment.vote_weight"]) == (0.5, 2)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_it_is_refused_by_name(said: dict[str, Any], name: str) -> None:
    assert said["recipes"][name].get("errors") == [REFUSED[name][1]]


def test_it_is_listed_and_published(said: dict[str, Any]) -> None:
    (method,) = (row for row in said["lists"]["methods"] if row["name"] == "bco")
    assert (method["task"], method["formats"]) == ("align", ["voted-answer"])
    (format,) = (row for row in said["lists"]["formats"] if row["name"] == "voted-answer")
    assert (format["columns"], format["methods"]) == (["prompt", "completion", "vote"], ["bco"])
    alignment = said["schema"]["Alignment"]["properties"]
    named = [row.alignment for row in METHODS.values() if row.alignment]
    assert alignment["method"]["enum"] == ["auto", "none", *named, "bco"]
    assert (alignment["beta"]["maximum"], alignment["vote_weight"]["maximum"]) == (10, 100)
    assert "bco" in said["schema"]["Train"]["properties"]


def test_its_rows_propose_its_task(said: dict[str, Any]) -> None:
    written = tomllib.loads(said["init"])
    assert (written["goal"]["task"], written["data"]) == ("align", {"preferences": "marked.jsonl"})
