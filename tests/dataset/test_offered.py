"""Rows that call tools and offer none: each command that is named makes rows that pass."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

TOOL = {"type": "function", "function": {"name": "get_order", "description": "An order", "parameters": {}}}
CALL = {"type": "function", "function": {"name": "get_order", "arguments": {}}}


def row(number: int, tools: Any, *calls: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": f"Where is order {number}?"}
    answer = {"role": "assistant", "content": f"There, {number}.", **({"tool_calls": [*calls]} if calls else {})}
    return {"messages": [asked, answer], "tools": tools}


def shared(number: int, tools: Any, *calls: Any) -> dict[str, Any]:
    """The same in the words of ShareGPT, where a call is a turn of its own."""
    turns = [{"from": "human", "value": f"Where is order {number}?"}]
    turns += [{"from": "function_call", "value": json.dumps(call["function"])} for call in calls]
    turns += [{"from": "observation", "value": "There."}] if calls else []
    return {"conversations": [*turns, {"from": "gpt", "value": f"There, {number}."}], "tools": tools}


def faults(folder: Path, file: str) -> list[Any]:
    made = with_key(with_key(BASES["lora-single"], "data.train", file), "data.max_length", 512)
    return [one for one in compiled(folder, made).diagnostics if one.code == "E0304"]


@pytest.mark.parametrize("row", [row, shared], ids=["tool_calls", "function_call"])
@pytest.mark.parametrize("tools", [[TOOL], json.dumps([TOOL])], ids=["a list", "a text"])
@pytest.mark.parametrize(("way", "left"), [("leave out", 39), ("give them", 40)])
def test_rows_that_call_tools_and_offer_none_have_a_way_out(
    tmp_path: Path, row: Any, tools: Any, way: str, left: int
) -> None:
    rows = [*(row(n, tools, CALL) for n in range(38)), row(38, None, CALL), row(39, None)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (found,) = faults(tmp_path, "rows.jsonl")
    (help,) = (one for one in found.help if one.startswith(f"to {way}"))
    subprocess.run(help.partition(": ")[2].strip("`"), shell=True, cwd=tmp_path, check=True)
    written = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert len(written) == left
    assert written[-1] == rows[-1]
    assert not faults(tmp_path, "rows.new.jsonl")


def test_tools_that_differ_are_not_given_to_other_rows(tmp_path: Path) -> None:
    other = {"type": "function", "function": {"name": "find", "parameters": {}}}
    rows = [row(n, [TOOL, other] if n % 2 else [TOOL], CALL) for n in range(38)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*rows, row(38, None, CALL)]))
    (found,) = faults(tmp_path, "rows.jsonl")
    assert [one.partition(":")[0] for one in found.help] == ["to leave out rows that call tools and offer none"]
