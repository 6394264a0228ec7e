"""Lists of messages that columns of answers hold as text: refused, and read by the told command."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

ASKED = [[{"role": "user", "content": f"Why isn't it {n}?"}, {"role": "assistant", "content": "So."}] for n in range(9)]
SAID = [[{"role": "assistant", "content": f"It's {n}.\nYes"}] for n in range(9)]
PLAIN = "[1] says so."


def numpy_text(turns: list[dict[str, str]]) -> str:
    return f"[{chr(10).join(map(str, turns))}]"


def refused(folder: Path, rows: list[dict[str, Any]], ending: str, **data: Any) -> list[Any]:
    file = folder / f"rows.{ending}"
    with file.open("w", newline="") as text:
        if ending == "csv":
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            text.writelines(json.dumps(row) + "\n" for row in rows)
    return findings(folder, file.name, **data)


def findings(folder: Path, file: str, **data: Any) -> list[Any]:
    recipe: Tables = with_key(BASES["lora-single"], "data", {"train": file, **data})
    return [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code.startswith("E03")]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("written", [json.dumps, str, numpy_text])
def test_lists_of_messages_as_text_are_refused_and_read_by_the_told_command(
    tmp_path: Path, ending: str, written: Callable[[Any], str]
) -> None:
    rows = [{"prompt": written(asked), "response": written(said)} for asked, said in zip(ASKED, SAID, strict=True)]
    (found,) = refused(tmp_path, [{**rows[0], "prompt": PLAIN}, *rows], ending)
    assert found.code == "E0305" and "`prompt` and `response` hold lists of messages as text" in found.labels[0].message
    command = found.help[0].split("`")[1]
    if command.startswith("jq") and not shutil.which("jq"):
        pytest.skip("jq is not installed")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=60)
    (made,) = (file for file in tmp_path.glob("rows*.jsonl") if ending == "csv" or file.name != "rows.jsonl")
    read = [json.loads(line) for line in made.read_text().splitlines()]
    assert [row["response"] for row in read] == [SAID[0], *SAID]
    assert [row["prompt"] for row in read] == [PLAIN, *ASKED]
    assert not findings(tmp_path, made.name)


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        (json.dumps(SAID[0]), {"format": "prompt-completion"}),
        (json.dumps([{"role": "PER", "content": "Anna"}]), {}),
        (json.dumps([{"name": "sum", "value": 3}]), {}),
        ("[{'role': 'user', 'content': is cut", {}),
        (PLAIN, {}),
    ],
)
def test_other_answers_are_learned_as_they_stand(tmp_path: Path, answer: str, data: Tables) -> None:
    assert not refused(tmp_path, [{"prompt": f"Why {n}?", "completion": answer} for n in range(9)], "jsonl", **data)


def test_answers_of_which_few_are_lists_of_messages_are_learned_as_they_stand(tmp_path: Path) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}." if n % 3 else json.dumps(SAID[0])} for n in range(9)]
    assert not refused(tmp_path, rows, "jsonl")
