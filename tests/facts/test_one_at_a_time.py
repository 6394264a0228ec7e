"""Rows with several faults: each command reads the old file and writes the same new one, so one step is printed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

ANSWERS = [{"prompt": f"Why {n}?", "completion": f"So {n}."} for n in range(30)]
FAULTS: dict[str, tuple[list[dict[str, Any]], tuple[str, Any]]] = {
    "numbers and speakers": (
        [{"messages": [{"role": "human", "content": n}, {"role": "bot", "content": f"So {n}."}]} for n in range(30)],
        ("data.split", None),
    ),
    "dates and gaps": (
        [row | {"day": None if n % 5 == 0 else f"{n:02}.10.2024"} for n, row in enumerate(ANSWERS)],
        ("data.split", {"time": "day"}),
    ),
    "commas and gaps": (
        [row | {"hard": None if n % 5 == 0 else f"{n},5"} for n, row in enumerate(ANSWERS)],
        ("train.curriculum", {"column": "hard"}),
    ),
}


@pytest.mark.parametrize("faults", FAULTS)
def test_who_runs_every_command_has_rows_that_can_be_used(tmp_path: Path, faults: str) -> None:
    rows, (key, value) = FAULTS[faults]
    file = "rows.jsonl"
    (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for left in (1, 0):
        help = refused(tmp_path, file, key, value)
        (command,) = [found for line in help for found in re.findall("`((?:python3|jq) .*)`", line)]
        assert any(line.startswith("then name the new file") for line in help) is bool(left)
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        file = file.replace(".jsonl", ".new.jsonl")
    assert not refused(tmp_path, file, key, value)


def refused(folder: Path, file: str, key: str, value: Any) -> list[str]:
    recipe = with_key(with_key(BASES["lora-single"], "data.train", file), key, value)
    found = [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code[0] == "E"]
    return [line for one in found for line in one.help]
