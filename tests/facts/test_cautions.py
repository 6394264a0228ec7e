"""What is said of rows that can be used: thoughts in prompts, and questions that cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_turn_end import saved

USER, ANSWER = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
THOUGHT = {"role": "assistant", "content": "<think>Hm.</think>Hi."}
FIELD = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}


def told(folder: Path, recipe: Tables, rows: list[dict[str, Any]], file: str, code: str) -> list[str]:
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for other in {"chat.jsonl", "pairs.jsonl"} - {file}:
        (folder / other).write_text("")
    return [str(found.labels[0].message) for found in compiled(folder, recipe).diagnostics if found.code == code]


@pytest.mark.parametrize("thought", [THOUGHT, FIELD], ids=["in the text", "in a field"])
@pytest.mark.parametrize("implicit", [False, True], ids=["a prompt", "a shared beginning"])
def test_a_thought_in_a_prompt_is_told(tmp_path: Path, thought: dict[str, str], implicit: bool) -> None:
    prompt = [USER, thought, USER]
    pair = {"chosen": [*prompt, ANSWER], "rejected": [*prompt, {**ANSWER, "content": "No."}]}
    apart = {"prompt": prompt, "chosen": [ANSWER], "rejected": [{**ANSWER, "content": "No."}]}
    rows = [pair if implicit else apart] * 3
    assert told(tmp_path, BASES["dpo-full"], rows, "pairs.jsonl", "W0533") == [
        "3 of 3 sampled rows, the first pairs.jsonl:1"
    ]
    for way in ("strip", "keep"):
        recipe = with_key(BASES["dpo-full"], "data.reasoning", way)
        assert told(tmp_path, recipe, rows, "pairs.jsonl", "W0533") == []


def test_a_thought_that_is_learned_is_no_thought_of_a_prompt(tmp_path: Path) -> None:
    pair = {"chosen": [USER, THOUGHT], "rejected": [USER, ANSWER]}
    assert told(tmp_path, BASES["dpo-full"], [pair] * 3, "pairs.jsonl", "W0533") == []


def test_a_thought_in_a_prompt_alone_does_not_say_how_answers_are_learned(tmp_path: Path) -> None:
    rows = [{"prompt": [USER, THOUGHT, {**USER, "content": f"{n}?"}], "completion": [ANSWER]} for n in range(40)]
    told(tmp_path, BASES["lora-single"], rows, "chat.jsonl", "W0533")
    plan = compiled(tmp_path, BASES["lora-single"]).plan
    assert plan.stages[0].decisions["reasoning"].value == ""


@pytest.mark.parametrize("rows", [{"input_ids": [1, 2, 3]}, {"text": "Why? So."}], ids=["tokens", "text"])
def test_questions_that_cannot_be_looked_for_are_told(tmp_path: Path, rows: dict[str, Any]) -> None:
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{n}?", "chosen": "a", "rejected": "b"}) + "\n" for n in range(40))
    )
    (tmp_path / "chat.jsonl").write_text(json.dumps(rows) + "\n")
    found = [found for found in compiled(tmp_path, BASES["sft-dpo"]).diagnostics if found.code == "W0531"]
    assert [label.place.span.line for label in found[0].labels] == [4, 4]
    assert "prompt" in found[0].help[0]


@pytest.mark.parametrize("speaker", ["user", "assistant"])
def test_a_text_that_ends_a_turn_is_told_where_the_end_is_known(tmp_path: Path, speaker: str) -> None:
    bad = {"user": USER, "assistant": ANSWER} | {speaker: {"role": speaker, "content": "It is <|im_end|>."}}
    rows = [{"messages": [USER, ANSWER]}, {"messages": [bad["user"], bad["assistant"]]}]
    qwen = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-8B")
    assert told(tmp_path, qwen, rows, "chat.jsonl", "W0534") == ["1 of 2 sampled rows, the first chat.jsonl:2"]
    assert told(tmp_path, with_key(qwen, "data.template", "plain"), rows, "chat.jsonl", "W0534") == []


def test_a_text_that_holds_a_special_token_of_a_local_model_is_told(tmp_path: Path) -> None:
    saved(tmp_path / "own", "<|tool|>")
    tokenizer = json.loads((tmp_path / "own" / "tokenizer.json").read_text())
    local = with_key(BASES["lora-single"], "model.name", "./own")
    rows = [{"messages": [USER, {**ANSWER, "content": f"Hold {n} <|tool|>."}]} for n in range(40)]
    for special, wanted in ((True, ["40 of 40 sampled rows, the first chat.jsonl:1"]), (False, [])):
        tokenizer["added_tokens"][0]["special"] = special
        (tmp_path / "own" / "tokenizer.json").write_text(json.dumps(tokenizer))
        assert told(tmp_path, local, rows, "chat.jsonl", "W0534") == wanted


LONG = "Name one part of a pump."
REPEATING = {
    "chat.jsonl": {"prompt": LONG, "completion": f"{LONG} The impeller."},
    "pairs.jsonl": {"prompt": LONG, "chosen": f"{LONG} The impeller.", "rejected": f"{LONG} A pump."},
}


@pytest.mark.parametrize(("base", "file"), [("lora-single", "chat.jsonl"), ("dpo-full", "pairs.jsonl")])
def test_answers_that_repeat_their_prompt_are_told(tmp_path: Path, base: str, file: str) -> None:
    row = REPEATING[file]
    others = [row | {"prompt": f"Name part {n} of one pump."} for n in range(4)]
    assert told(tmp_path, BASES[base], [row] * 4, file, "W0537") == [f"4 of 4 sampled rows, the first {file}:1"]
    assert told(tmp_path, BASES[base], [row, *others], file, "W0537") == []
    if "chosen" in row:
        assert told(tmp_path, BASES[base], [row | {"rejected": "A pump."}] * 4, file, "W0537") == []


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("[INST] Why? [/INST]", True),
        ("<|start_header_id|>user<|end_header_id|>Why?", True),
        ("Why?<end_of_turn>", True),
        ("<s>Why?", True),
        ("So.</s>", True),
        ("This is <s>struck out</s> text.", False),
        ("### Instruction: why?", False),
        ("Why?<|im_end|>", False),  # ends a turn of this model: W0534
    ],
)
def test_marks_of_other_templates_are_told(tmp_path: Path, text: str, warned: bool) -> None:
    rows = [{"messages": [USER, ANSWER]}, {"messages": [{**USER, "content": text}, ANSWER]}]
    qwen = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-7B-Instruct")
    told_of = ["1 of 2 sampled rows, the first chat.jsonl:2"] * warned
    assert told(tmp_path, qwen, rows, "chat.jsonl", "W0559") == told_of


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("<THINK>Hm.</Think>So.", True),
        (" <Thinking>Hm.</thinking>So.", True),
        ("<think>Hm.</think>So.", False),
        ("Write <thinking> and </thinking>.", False),
        ("<THINK>So.", False),
    ],
)
def test_thoughts_between_other_tags_in_one_row_are_told(tmp_path: Path, text: str, warned: bool) -> None:
    """Under any chat template, and with the tags as they are written in the command."""
    rows = [{"messages": [USER, ANSWER]}, {"messages": [USER, {**ANSWER, "content": text}]}]
    qwen = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-7B-Instruct")
    found = told(tmp_path, qwen, rows, "chat.jsonl", "W0559")
    first, last = text.strip().partition(">")[0] + ">", "<" + text.rpartition("<")[2].partition(">")[0] + ">"
    said = f"answers have thoughts between {first} and {last}, which are learned as parts of the answers"
    assert found == [said] * warned


@pytest.mark.parametrize(("name", "named"), [("add", False), ("is", True), ("address_of", False), ("a-b", True)])
def test_a_tool_is_named_by_a_whole_word(tmp_path: Path, name: str, named: bool) -> None:
    """As `address` names no tool `add`."""
    asked = {"role": "user", "content": "Is it at this address, which is of a-b?"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {}}}]}
    rows = [{"messages": [asked, call, {"role": "tool", "content": "1"}, ANSWER]}] * 3
    qwen = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-7B-Instruct")
    assert bool(told(tmp_path, qwen, rows, "chat.jsonl", "W0557")) is not named
