"""Files that printed commands write: none of the user's, and what says which of two commands comes first."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.dataset.commands import documents, paragraphs, to_free_name, written_by
from recipec.dataset.rows import unwrapped

COMMAND = re.compile("`((?:python3|jq) [^`]*)`")
OTHERS = [{"speaker": "customer", "text": "Why?"}, {"speaker": "agent", "text": "So."}]
TALK = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
MINE = "what the user has"


def put(file: Path, rows: list[dict[str, Any]]) -> None:
    if file.suffix == ".csv":
        with file.open("w", newline="") as out:
            table = csv.DictWriter(out, rows[0])
            table.writeheader()
            table.writerows({name: json.dumps(value) for name, value in row.items()} for row in rows)
    else:
        file.write_text(json.dumps(rows))


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("there", [["x.jsonl"], ["x.jsonl", "x.new.jsonl"], ["x.new.jsonl", "x.new2.jsonl"]])
def test_no_command_writes_over_a_file(tmp_path: Path, kind: str, there: list[str]) -> None:
    put(tmp_path / f"x.{kind}", [{"messages": OTHERS if kind == "json" else TALK}] * 20)
    for name in there:
        (tmp_path / name).write_text(MINE)
    (found,) = errors(tmp_path, with_key(BASES["lora-single"], "data.train", f"x.{kind}"))
    (command,) = COMMAND.findall("\n".join(found.help))
    before = {*tmp_path.iterdir()}
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert all((tmp_path / name).read_text() == MINE for name in there)
    (made,) = {*tmp_path.iterdir()} - before
    assert len(made.read_text().splitlines()) == 20


def errors(folder: Path, recipe: Tables) -> list[Any]:
    return [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code[0] == "E"]


@pytest.mark.parametrize(
    "line",
    [paragraphs("x y.txt"), documents("*.txt", "name", "name"), unwrapped("data", "x.json"), unwrapped("a", "x")],
)
def test_every_new_file_has_a_name_that_is_not_taken(tmp_path: Path, line: str) -> None:
    (first,) = [name.strip("'") for name in [written_by(line)]]
    assert to_free_name(line, tmp_path) == line == to_free_name(line, tmp_path / "no folder")
    (tmp_path / first).touch()
    second = written_by(to_free_name(line, tmp_path)).strip("'")
    assert second == first.replace(".jsonl", "2.jsonl") and ".jsonl" in first


@pytest.mark.parametrize("file", ["it's > of.jsonl", "a > 'b'.jsonl", "plain.jsonl", "ä.jsonl"])
def test_the_name_behind_a_command_is_read_as_the_shell_does(tmp_path: Path, file: str) -> None:
    line = f"first: {unwrapped('data', file)}, then write `x = 1`"
    (tmp_path / file.replace(".jsonl", ".new.jsonl")).touch()
    written = subprocess.run(
        ["bash", "-c", f"echo {written_by(to_free_name(line, tmp_path))}"], capture_output=True, text=True, check=True
    )
    assert written.stdout.strip() == file.replace(".jsonl", ".new2.jsonl")
    assert not written_by("`score > x.jsonl` is no command")


def test_the_second_of_two_commands_for_a_file_reads_what_the_first_wrote(tmp_path: Path) -> None:
    turns = [[{"role": "user", "content": f"Why {n}?"}, {"role": "assistant", "content": "So."}] for n in range(40)]
    rows = [{"messages": talk, "rating": 1 + n % 5, "thumb": n % 2} for n, talk in enumerate(turns)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", "x.jsonl"), only_plan=True).diagnostics
    writing = [one for one in found if any(written_by(line) == "x.new.jsonl" for line in one.help)]
    assert [one.code for one in writing] == ["W0562", "W0516"]
    assert not any("also prints" in line for line in writing[0].help)
    assert writing[1].help[-1].startswith("W0562 also prints a command that writes x.new.jsonl: run one of both")
