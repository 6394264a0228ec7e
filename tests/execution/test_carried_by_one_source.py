"""What one source or one held-out file carries is read, whatever the formats of the others and their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import compiled, with_key
from test_carried import TOOL, recipe, said, tokenizer_of
from test_prepare_data import emitted, prepared, write

pytestmark = pytest.mark.executes

CARRY = 'to read `tools`: `carry = ["tools"]` under [data]'


def instructions(count: int = 20, **columns: Any) -> list[dict[str, Any]]:
    return [{"instruction": f"Task {n}", "output": f"D {n}", **columns} for n in range(count)]


def prompts(count: int = 20, **columns: Any) -> list[dict[str, Any]]:
    asked = [[{"role": "user", "content": f"Prompt {n}"}] for n in range(count)]
    return [{"prompt": turns, "completion": [said(f"E {n}")], **columns} for n, turns in enumerate(asked)]


def in_parts() -> list[dict[str, Any]]:
    return [
        row | {"prompt": [{"role": "user", "content": [{"type": "text", "text": row["prompt"][0]["content"]}]}]}
        for row in prompts()
    ]


def rows_of(folder: Path, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    script = emitted(folder, made, monkeypatch)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer_of([*instructions(), *prompts(tools=[TOOL])]))
    script.main()
    rows = [row for part in ("train", "eval", "test") for row in prepared(folder, f"sft/{part}")]
    return sorted(json.dumps({name: row.get(name) for name in ("prompt", "completion", "tools")}) for row in rows)


@pytest.mark.parametrize("carry", [None, ["tools"]])
@pytest.mark.parametrize("other", ["tools", "parts"])
def test_the_order_of_sources_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, carry: list[str] | None
) -> None:
    """Instructions hold no tools and no texts in parts; beside them such rows are learned as if they came first."""
    write(tmp_path / "plain.jsonl", instructions())
    write(tmp_path / "other.jsonl", prompts(tools=[TOOL]) if other == "tools" else in_parts())
    more = {"carry": carry} if carry else {}
    orders = (["plain.jsonl", "other.jsonl"], ["other.jsonl", "plain.jsonl"])
    first, second = (rows_of(tmp_path, recipe(train=order, **more), monkeypatch) for order in orders)
    assert first == second and len(first) == 40
    assert sum("weather" in row for row in first) == (20 if other == "tools" else 0)


@pytest.mark.parametrize("part", ["eval", "test"])
def test_tools_of_a_held_out_file_alone_are_read_where_the_recipe_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    write(tmp_path / "plain.jsonl", instructions())
    write(tmp_path / "held.jsonl", prompts(4, tools=[TOOL]))
    made = recipe(train="plain.jsonl", **{part: "held.jsonl"})
    assert CARRY in _refused(tmp_path, made)
    rows_of(tmp_path, with_key(made, "data.carry", ["tools"]), monkeypatch)
    assert all("weather" in row["tools"] for row in prepared(tmp_path, f"sft/{part}"))


@pytest.mark.parametrize("trained", ["plain", "tools"])
def test_tools_that_no_format_reads_are_refused_without_a_key_that_would_not_read_them(
    tmp_path: Path, trained: str
) -> None:
    """Also where the rows that are learned carry tools: those of a held-out instruction are read by nothing."""
    write(tmp_path / "train.jsonl", instructions() if trained == "plain" else prompts(tools=[TOOL]))
    write(tmp_path / "held.jsonl", instructions(4, tools=[TOOL]))
    found = _refused(tmp_path, recipe(train="train.jsonl", eval="held.jsonl"))
    assert found and CARRY not in found


def _refused(folder: Path, made: dict[str, Any]) -> tuple[str, ...]:
    """The fixes of the one finding that says that something would be left out."""
    (found,) = [found for found in compiled(folder, made).diagnostics if found.code == "E0308"]
    return found.help
