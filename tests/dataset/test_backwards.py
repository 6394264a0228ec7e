"""Columns that are true of bad answers, such as `thumbs_down`, are no labels: the commands make labels of them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compiling import BASES, compiled, with_key
from tiers import one_in

from recipec.cli.group import recipec
from recipec.dataset.backwards import says_bad
from recipec.diagnostics.model import Diagnostic

BAD = ("thumbs_down", "thumbsDown", "disliked", "downvotes", "is_bad", "flagged", "rejected", "not_helpful", "unsafe")
GOOD = ("thumbs_up", "liked", "upvotes", "is_good", "label", "feedback", "breakdown", "not_bad", "closed", "accepted")


@pytest.mark.parametrize("name", [*BAD, *GOOD])
def test_the_name_tells_which_answers_are_true(name: str) -> None:
    assert says_bad(name) is (name in BAD)


def rows(*rated: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"prompt": f"Why {n}?", "completion": f"So {n}."} | rated[n % len(rated)] for n in range(60)]


def written(folder: Path, ending: str, rated: list[dict[str, Any]]) -> str:
    file = folder / f"rated{ending}"
    if ending == ".csv":
        with file.open("w", newline="") as opened:
            out = csv.DictWriter(opened, rated[0])
            out.writeheader()
            out.writerows(rated)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rated))
    return file.name


def diagnostics(folder: Path, data: dict[str, Any]) -> list[Diagnostic]:
    align = "preferences" in data
    goal = {"goal": {"task": "align"}, "alignment": {"method": "kto"}} if align else {}
    recipe = with_key(BASES["lora-single"] | goal, "data", data | {"examples": 5_000, "tokens_per_example": 64})
    return list(compiled(folder, recipe, only_plan=True).diagnostics)


def labels(folder: Path, found: Diagnostic) -> dict[str, Any]:
    """What the command of the help makes of the rows: the label of each prompt."""
    (line,) = [line for line in found.help if "`python3 " in line]
    assert 'label = "thumbs' not in line and "columns = {" not in line
    command, file = re.findall("`(python3 .* > (.*?))`", line)[0]
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    made = list(map(json.loads, (folder / file).read_text().splitlines()))
    assert all(row.keys() == {"prompt", "completion", "label"} for row in made)
    data = {"preferences": file, "incomplete": "skip"}
    assert not [one for one in diagnostics(folder, data) if one.code[0] == "E"]
    return {row["prompt"]: row["label"] for row in made}


SAID = ((1, 0), ("True", "False"), ("yes", "no"))
NAMES = ("thumbs_down", "disliked", "is_bad", "flagged", "rejected")


@pytest.mark.parametrize(
    ("name", "bad", "good", "ending"),
    one_in(7, ((name, *said, end) for name in NAMES for said in SAID for end in (".csv", ".jsonl"))),
)
def test_the_opposite_is_the_label(tmp_path: Path, name: str, bad: Any, good: Any, ending: str) -> None:
    file = written(tmp_path, ending, rows({name: bad}, {name: good}, {name: good}))
    (unread,) = [one for one in diagnostics(tmp_path, {"train": file}) if one.code == "W0516"]
    (unknown,) = [one for one in diagnostics(tmp_path, {"preferences": file}) if one.code == "E0305"]
    given = diagnostics(tmp_path, {"preferences": file, "columns": {"label": name}})
    (refused,) = [one for one in given if one.code == "E0401"]
    for found in (unread, unknown, refused):
        assert labels(tmp_path, found) == {f"Why {n}?": n % 3 > 0 for n in range(60)}
    assert f"`{name}` as the label would train the model on bad answers as good ones" == refused.title


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_that_two_ratings_leave_open_have_no_label(tmp_path: Path, ending: str) -> None:
    up, down = {"thumbs_up": 1, "thumbs_down": 0}, {"thumbs_up": 0, "thumbs_down": 1}
    file = written(tmp_path, ending, rows(up, down, {"thumbs_up": 0, "thumbs_down": 0}))
    (unread,) = [one for one in diagnostics(tmp_path, {"train": file}) if one.code == "W0516"]
    assert "leave out rows that say neither or both (20 of 60 sampled)" in unread.help[0]
    given = diagnostics(tmp_path, {"preferences": file, "columns": {"label": "thumbs_up"}})
    (half,) = [one for one in given if one.code == "W0516"]
    for found in (unread, half):
        assert labels(tmp_path, found) == {f"Why {n}?": n % 3 == 0 for n in range(60) if n % 3 < 2}


def test_words_of_ratings_speak_for_themselves(tmp_path: Path) -> None:
    file = written(tmp_path, ".jsonl", rows({"flagged": "good"}, {"flagged": "bad"}))
    found = diagnostics(tmp_path, {"preferences": file, "columns": {"label": "flagged"}})
    assert not [one for one in found if one.code[0] == "E"]


def test_few_downvotes_are_a_good_answer(tmp_path: Path) -> None:
    file = written(tmp_path, ".jsonl", rows({"downvotes": 1}, {"downvotes": 2}, {"downvotes": 5}))
    found = diagnostics(tmp_path, {"preferences": file, "columns": {"label": "downvotes"}})
    (told,) = [one for one in found if one.code == "E0304"]
    assert any(
        "up to which number an answer is good" in line and 'float(row["downvotes"]) <= 2' in line for line in told.help
    )


def test_flags_of_conversations_are_no_labels(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    file = written(tmp_path, ".jsonl", [{"messages": talk, "flagged": n % 2} for n in range(60)])
    (found,) = [one for one in diagnostics(tmp_path, {"preferences": file}) if one.code == "E0305"]
    assert not any("label: .flagged" in line for line in found.help)


def test_init_writes_the_command(tmp_path: Path) -> None:
    file = written(tmp_path, ".csv", rows({"thumbs_down": 1}, {"thumbs_down": 0}))
    flags = ["--data", str(tmp_path / file), "--gpu", "rtx-4090", "--model", "Qwen/Qwen2.5-7B-Instruct", "--yes"]
    made = CliRunner().invoke(recipec, ["init", str(tmp_path / "own"), *flags])
    assert made.exit_code == 0, made.output
    text = (tmp_path / "own" / "recipe.toml").read_text()
    assert re.search("^# .*`python3 -c .* > .*`, then `task", text, re.MULTILINE)
    assert 'label = "thumbs_down"' not in text
