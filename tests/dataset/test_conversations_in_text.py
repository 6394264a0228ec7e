"""Trees of messages, and texts with their turns written out: recognized, and rewritten by the told commands."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.dataset import written_out

MESSAGES = [
    {"message_id": id, "parent_id": parent, "role": role, "text": text}
    for id, parent, role, text in (
        ("a", None, "prompter", "Q1"),
        ("b", "a", "assistant", "A1"),
        ("c", "a", "assistant", "B1"),
        ("d", "b", "prompter", "Q2"),
        ("e", "d", "assistant", "A2"),
        ("f", "e", "prompter", "Q3"),
    )
]
Q1, A1 = {"role": "user", "content": "Q1"}, {"role": "assistant", "content": "A1"}
Q2, A2 = {"role": "user", "content": "Q2"}, {"role": "assistant", "content": "A2"}
ANSWERED = [([Q1], [A1]), ([Q1], [{"role": "assistant", "content": "B1"}]), ([Q1, A1, Q2], [A2])]
GUANACO = {"text": "### Human: Why\nnot $5?### Assistant: Because.\n\nYes. ### Human: Ok### Assistant: Fine"}


def tree(id: str | None) -> list[dict[str, Any]]:
    """The messages that answer this one, each with those that answer it."""
    own = (row for row in MESSAGES if row["parent_id"] == id)
    return [{"text": row["text"], "role": row["role"], "replies": tree(row["message_id"])} for row in own]


def refused(folder: Path, rows: list[dict[str, Any]], task: str = "instruct", **data: Any) -> list[Any]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", **data})
    recipe = with_key(recipe, "goal.task", task)
    return [one for one in compiled(folder, recipe).diagnostics if one.code in ("E0305", "E0308")]


def rewritten(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that the told command makes."""
    (found,) = refused(folder, rows)
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    subprocess.run(found.help[0].split("`")[1], shell=True, cwd=folder, check=True, timeout=60)
    return [json.loads(line) for line in (folder / "rows.new.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("rows", [MESSAGES, [{"message_tree_id": "a", "prompt": tree(None)[0]}]])
def test_every_answer_of_a_tree_becomes_a_row(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    made = [(row["prompt"], row["completion"]) for row in rewritten(tmp_path, rows)]
    assert sorted(made, key=str) == sorted(ANSWERED, key=str)


def test_turns_of_guanaco_become_a_conversation(tmp_path: Path) -> None:
    (row,) = rewritten(tmp_path, [GUANACO])
    said = [("human", "Why\nnot $5?"), ("gpt", "Because.\n\nYes."), ("human", "Ok"), ("gpt", "Fine")]
    assert row == {"conversations": [{"from": speaker, "value": text} for speaker, text in said]}


def test_what_the_recipe_says_of_such_rows_is_believed(tmp_path: Path) -> None:
    assert not refused(tmp_path, [GUANACO] * 8, format="text")
    assert not refused(tmp_path, MESSAGES * 4, ignore=["message_id", "parent_id", "role"])


def test_rows_of_which_half_are_conversations_are_taken_for_conversations(tmp_path: Path) -> None:
    """Fewer may be quoted in documents, which are learned as they stand."""
    texts = [GUANACO] * 4 + [{"text": f"Document {number}"} for number in range(5)]
    (found,) = refused(tmp_path, texts[:8])
    assert "holds a conversation in 4 of 8 sampled rows" in found.labels[0].message
    assert not refused(tmp_path, texts)


def test_conversations_are_text_where_no_stage_learns_answers_alone(tmp_path: Path) -> None:
    """Continued pretraining learns every token of them."""
    assert refused(tmp_path, [GUANACO] * 8)
    assert not refused(tmp_path, [GUANACO] * 8, task="continue-pretrain")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>", True),
        ("<s>[INST] Why? [/INST] So. </s>", True),
        ("\n\nHuman: Why?\n\nAssistant: So.", True),
        ("### Instruction:\nAdd.\n\n### Response:\n3", True),
        ("The user asked: why? The assistant said so.", False),
        ("Human: a word of the species alone", False),
    ],
)
def test_turns_are_known_by_their_marks(text: str, is_one: bool) -> None:
    assert written_out(text) == is_one
