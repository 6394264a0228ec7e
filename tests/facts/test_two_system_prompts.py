"""A system prompt in a column and another one in the conversation: the commands keep one, and lose no other."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key


def talk(n: int, *system: str) -> list[dict[str, str]]:
    asked = [{"role": "user", "content": f"Why {n}?"}, {"role": "assistant", "content": "So."}]
    return [*({"role": "system", "content": text} for text in system), *asked]


def prompts(row: dict[str, Any]) -> list[str]:
    said = [turn["content"] for turn in row["messages"] if turn["role"] == "system"]
    return [*said, *filter(None, [row.get("system")])]


@pytest.mark.parametrize("kept", ["message", "column"])
def test_the_commands_keep_one_prompt_of_every_row(tmp_path: Path, kept: str) -> None:
    both = [{"messages": talk(n, "message"), "system": "column"} for n in range(9)]
    alone = [{"messages": talk(9), "system": "alone"}, {"messages": talk(10, "alone"), "system": ""}]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*both, *alone]))
    recipe = with_key(BASES["lora-single"], "data.train", "chat.jsonl")
    (found,) = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code == "E0304"]
    assert not any("`ignore = " in line for line in found.help)
    (line,) = [line for line in found.help if re.match(f"to keep the (system )?{kept}", line)]
    subprocess.run(["bash", "-c", re.findall("`(jq .*)`", line)[0]], cwd=tmp_path, check=True)
    made = list(map(json.loads, (tmp_path / "chat.new.jsonl").read_text().splitlines()))
    assert [prompts(row) for row in made] == [[kept]] * 9 + [["alone"]] * 2
    left = compiled(tmp_path, with_key(recipe, "data.train", "chat.new.jsonl"), only_plan=True).diagnostics
    assert not [one for one in left if one.code[0] == "E"]
