"""Prompts that are conversations with tools, which a model that writes its own answers does not read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

CALL = {"type": "function", "function": {"name": "find", "arguments": "{}"}}
ROLES = [
    [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "Here."},
        {"role": "assistant", "content": "It is here."},
    ],
    [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}],
]
SPEAKERS = [
    [
        {"from": "human", "value": "Where is it?"},
        {"from": "function_call", "value": '{"name": "find", "arguments": {}}'},
        {"from": "observation", "value": "Here."},
        {"from": "gpt", "value": "It is here."},
    ],
    [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Me."}],
]


def refused(folder: Path, rows: list[list[dict[str, Any]]], file: str = "talks.jsonl") -> list[Diagnostic]:
    if rows:
        written = ({"messages": turns} for turns in (*rows, *rows[1:] * 20))
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in written))
    prompts = {"path": file, "columns": {"prompt": "messages"}}
    found = compiled(folder, with_key(BASES["grpo"], "data.prompts", prompts), only_plan=True).diagnostics
    return [finding for finding in found if finding.code == "E0304"]


@pytest.mark.parametrize("rows", [ROLES, SPEAKERS], ids=["role", "from"])
def test_turns_of_tools_are_refused_with_two_commands_that_work(tmp_path: Path, rows: list[Any]) -> None:
    (found,) = refused(tmp_path, rows)
    told = str((found.labels, found.notes))
    assert "prompts hold no turns of tools" in told and "not one of" not in told

    commands = [command for line in found.help for command in re.findall("`(jq .*)`", line)]
    assert len(commands) == 2
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    left = []
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        left.append([json.loads(line)["messages"] for line in (tmp_path / "talks.new.jsonl").read_text().splitlines()])
        assert not refused(tmp_path, [], "talks.new.jsonl")
    alone, ended = left
    assert (len(alone), alone[0]) == (21, rows[1])
    assert (len(ended), ended[:2]) == (22, [rows[0][:1], rows[1]])
