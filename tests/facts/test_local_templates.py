"""What the chat template in a model's folder does not write of answers is told when a recipe is compiled."""

from __future__ import annotations

import json
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_turn_end import saved

from recipec.diagnostics.model import Diagnostic

TEMPLATES = resources.files("trl").joinpath("chat_templates")
UNKNOWN = "{% for message in messages %}{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"
THINKS = UNKNOWN.replace("{{ message.content }}", "{{ message.reasoning_content }}</think>{{ message.content }}")
STRIP = 'to train without thoughts: `reasoning = "strip"` under [data]'
TAGS = "to train with them: write each into the text of its answer, between <think> and </think>"


def turn(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def asked(number: int, *answers: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"Why {number}?"}, *answers]}


def refused(folder: Path, template: str, rows: list[dict[str, Any]], base: str, /, **data: Any) -> list[Diagnostic]:
    """The contradictions of a recipe whose model is a folder with this template, or that of this name."""
    model = saved(folder / "model")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = TEMPLATES.joinpath(f"{template}.jinja")
    (model / "chat_template.jinja").write_text(template if "{" in template else file.read_text(encoding="utf-8"))
    made: Tables = with_key(with_key(BASES[base], "model.name", "./model"), "data.max_length", 512)
    section = "preferences" if "preferences" in made["data"] else "train"
    for key, value in {section: "rows.jsonl", **data}.items():
        made = with_key(made, f"data.{key}", value)
    return [found for found in compiled(folder, made).diagnostics if found.code == "E0401"]


@pytest.mark.parametrize(
    ("template", "lacks"),
    [("qwen2_5", True), ("deepseek_r1_distill", True), (UNKNOWN, True), ("qwen3", False), (THINKS, False)],
)
def test_a_mode_without_thinking_that_the_template_lacks_is_refused(tmp_path: Path, template: str, lacks: bool) -> None:
    rows = [asked(n, turn(f"So {n}.")) for n in range(40)]
    found = refused(tmp_path, template, rows, "lora-single", reasoning="off")
    said = "the chat template of ./model does not write a mode without thinking"
    assert [one.title for one in found] == [said] * lacks


@pytest.mark.parametrize("base", ["lora-single", "kto"])
@pytest.mark.parametrize(
    ("template", "ways"),
    [("qwen2_5", [STRIP, TAGS]), ("deepseekv3", [STRIP]), (UNKNOWN, [STRIP, TAGS]), ("qwen3", []), (THINKS, [])],
)
def test_thoughts_that_the_template_does_not_write_are_refused(
    tmp_path: Path, template: str, ways: list[str], base: str
) -> None:
    rows = [asked(n, turn(f"So {n}.", reasoning_content=f"Hm {n}.")) for n in range(40)]
    if base == "kto":
        rows = [
            {"prompt": row["messages"][:1], "completion": row["messages"][1:], "label": n % 2 == 0}
            for n, row in enumerate(rows)
        ]
    found = refused(tmp_path, template, rows, base)
    assert [one.title for one in found] == ["the chat template of ./model does not write such thoughts"] * bool(ways)
    assert [way for one in found for way in one.help[:-1]] == ways


@pytest.mark.parametrize(
    ("template", "data", "lost"),
    [
        ("qwen2_5", {}, "does not write such thoughts"),
        (UNKNOWN, {}, "does not write such thoughts"),
        ("qwen3", {}, ""),
        (THINKS, {"reasoning": "keep"}, ""),
        ("qwen2_5", {"reasoning": "strip"}, ""),
        ("qwen3", {"template": "plain"}, "does not write thoughts"),
        ("qwen3", {"template": "plain", "reasoning": "strip"}, ""),
    ],
)
def test_thoughts_are_not_carried_to_a_template_that_does_not_write_them(
    tmp_path: Path, template: str, data: dict[str, str], lost: str
) -> None:
    """No sampled row has one, and no later row that has could be prepared."""
    rows = [asked(n, turn(f"So {n}.")) for n in range(40)]
    found = refused(tmp_path, template, rows, "lora-single", carry=["reasoning"], **data)
    assert [lost in one.title for one in found] == [True] * bool(lost)
    assert all(one.labels[0].message.startswith("rows with thoughts") for one in found)


@pytest.mark.parametrize(
    ("template", "lost"), [("qwen2_5", True), (UNKNOWN, True), ("qwen3", False), (THINKS, False), ("gemma4", False)]
)
def test_thoughts_beside_calls_that_the_template_does_not_write_are_refused(
    tmp_path: Path, template: str, lost: bool
) -> None:
    call = {"type": "function", "function": {"name": "find", "arguments": {}}}
    tools = [{"type": "function", "function": {"name": "find"}}]
    rows = [asked(n, turn("", tool_calls=[call], reasoning_content=f"Hm {n}.")) | {"tools": tools} for n in range(40)]
    found = refused(tmp_path, template, rows, "lora-single")
    assert [one.title for one in found] == ["the chat template of ./model does not write such thoughts"] * lost


@pytest.mark.parametrize(("template", "lost"), [("deepseek_r1_distill", True), ("qwen2_5", False), ("qwen3", False)])
def test_thoughts_between_tags_that_the_template_cuts_are_refused(tmp_path: Path, template: str, lost: bool) -> None:
    rows = [asked(n, turn(f"<think>Hm {n}.</think>So {n}.")) for n in range(40)]
    found = refused(tmp_path, template, rows, "lora-single", reasoning="keep")
    assert [one.help[0] for one in found] == [STRIP] * lost
    (tmp_path / "again").mkdir()
    assert not refused(tmp_path / "again", template, rows, "lora-single", reasoning="strip")


@pytest.mark.parametrize("data", [{"reasoning": "keep"}, {"reasoning": "strip", "loss_on": "last-answer"}])
def test_an_answer_behind_another_is_refused_where_the_template_moves_thoughts(
    tmp_path: Path, data: dict[str, str]
) -> None:
    """The command that is named makes rows that pass."""
    rows = [asked(n, turn(f"First {n}."), turn(f"Second {n}.", reasoning_content="Hm." * (n % 2))) for n in range(40)]
    (found,) = refused(tmp_path, "qwen3", rows, "lora-single", **data)
    assert found.title == "the chat template of ./model does not write one answer behind another"
    command = found.help[0].removeprefix("join answers that follow each other: ").strip("`")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    joined = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    answers = [row["messages"][1:] for row in joined]
    assert answers == [[turn(f"First {n}.\n\nSecond {n}.", reasoning_content="Hm." * (n % 2))] for n in range(40)]
    (tmp_path / "again").mkdir()
    assert not refused(tmp_path / "again", "qwen3", joined, "lora-single", **data)


def test_a_template_that_is_not_known_to_the_byte_is_not_judged(tmp_path: Path) -> None:
    """SmolLM3 has a mode without thinking, and no source of the catalog has its text."""
    made = with_key(with_key(BASES["lora-single"], "model.name", "HuggingFaceTB/SmolLM3-3B"), "data.reasoning", "off")
    assert not [found for found in compiled(tmp_path, made).diagnostics if found.code == "E0401"]


@pytest.mark.parametrize(("template", "reasoning"), [("qwen3", "template"), ("qwen3_5_think", "keep")])
def test_answers_that_the_template_writes_behind_each_other_pass(tmp_path: Path, template: str, reasoning: str) -> None:
    rows = [asked(n, turn(f"First {n}."), turn(f"Second {n}.", reasoning_content="Hm.")) for n in range(40)]
    assert not refused(tmp_path, template, rows, "lora-single", reasoning=reasoning)
