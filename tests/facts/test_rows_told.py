"""What is wrong with rows is told at once, with what to write: words of speakers, other prompts, NUL characters."""

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

ROWS = [{"prompt": f"Why {n}?", "completion": f"So {n}."} for n in range(40)]


def refused(folder: Path, rows: list[dict[str, Any]], base: str = "lora-single", **keys: Any) -> list[Diagnostic]:
    (folder / "told.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = "preferences" if base.startswith("dpo") else "train"
    recipe = with_key(BASES[base], f"data.{section}", "told.jsonl")
    for name, value in keys.items():
        recipe = with_key(recipe, f"data.{name}", value)
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code[0] == "E"]


def rewritten(folder: Path, help: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows after the command of a help line."""
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    command = next(found[1] for line in help if (found := re.search("`(jq .*)`", line)))
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    return [json.loads(line) for line in (folder / "told.new.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("speaker", "text", "name"), [("role", "content", "messages"), ("from", "value", "conversations")]
)
def test_words_of_speakers_are_renamed_by_a_command(tmp_path: Path, speaker: str, text: str, name: str) -> None:
    rows = [{name: [{speaker: "Human", text: f"{n}?"}, {speaker: "GPT", text: "So."}]} for n in range(40)]
    (found,) = refused(tmp_path, rows)
    assert not refused(tmp_path, rewritten(tmp_path, found.help))
    rows[3][name][0][speaker] = "Narrator"
    assert not any("jq" in line for line in refused(tmp_path, rows)[0].help), "nobody knows whom it means"


def test_a_prompt_unlike_that_of_the_pair_is_told_with_the_key_that_reads_the_other(tmp_path: Path) -> None:
    def said(n: int, text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": text}]

    rows = [{"prompt": f"Other {n}", "chosen": said(n, "a"), "rejected": said(n, "b")} for n in range(40)]
    (found,) = refused(tmp_path, rows, "dpo-full")
    assert found.help[0] == 'to read what is asked in `chosen`: `ignore = ["prompt"]` under [data]'
    assert not refused(tmp_path, rows, "dpo-full", ignore=["prompt"])


def test_a_row_with_nul_hides_no_other_fault(tmp_path: Path) -> None:
    rows = [*ROWS, {"prompt": "5?", "completion": 42}, {"prompt": "6?", "completion": "x\0y"}, {"prompt": "only"}]
    first, second = refused(tmp_path, rows)
    assert first.title == "`told.jsonl:42` cannot be used" and "NUL" in first.labels[0].message
    told = str((second.labels, second.notes))
    assert "told.jsonl:41" in told and "told.jsonl:43: it has no `completion`" in told
    without = rewritten(tmp_path, first.help)
    assert without[41]["completion"] == "xy" and len(refused(tmp_path, without)) == 1


def test_rows_without_the_column_of_the_answer_are_incomplete(tmp_path: Path) -> None:
    rows = [*ROWS, {"prompt": "only"}]
    assert any("incomplete" in line for line in refused(tmp_path, rows)[0].help)
    assert not refused(tmp_path, rows, incomplete="skip")
    assert refused(tmp_path, [*ROWS[:5], *({"prompt": f"{n}?"} for n in range(40))], incomplete="skip")


def test_help_for_pairs_of_a_text_and_messages_leads_in_no_circle(tmp_path: Path) -> None:
    """The prompt cannot be ignored where one side is a text: no messages hold what it answers."""
    turns = [{"role": "user", "content": "Why then?"}, {"role": "assistant", "content": "No."}]
    rows = [{"prompt": f"Why {n}?", "chosen": f"So {n}.", "rejected": turns} for n in range(20)]
    helps = [refused(tmp_path, rows, "dpo-full", **keys)[0].help for keys in ({}, {"ignore": ["prompt"]})]
    assert helps == [
        ("to make all answers alike: write the assistant's answer alone into `rejected`",),
        ('to read `prompt` as the prompt: remove "prompt" from `ignore` under [data]',),
    ]


def test_words_of_speakers_are_renamed_beside_rows_with_other_faults(tmp_path: Path) -> None:
    """The command runs over every row: one without messages, or with a message that names no speaker, stays faulty."""
    said = [{"role": "Human", "content": "Why?"}, {"role": "AI", "content": "So."}]
    odd = [{"messages": None}, {"id": 1}, {"messages": "So."}, {"messages": [{"role": None, "content": "Why?"}, "So."]}]
    rows = [*({"messages": [{**turn, "content": f"{turn['content']} {n}"} for turn in said]} for n in range(40)), *odd]
    (found,) = refused(tmp_path, rows)
    written = rewritten(tmp_path, found.help)
    assert written[40:] == odd
    assert not refused(tmp_path, written[:40])


def test_old_calls_are_renamed_beside_rows_without_messages(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "sum", "arguments": "{}"}}
    asked, answer = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
    rows = [*({"messages": [asked, call, answer | {"content": f"{n}"}]} for n in range(40)), {"messages": None}]
    written = rewritten(tmp_path, refused(tmp_path, rows)[0].help)
    assert written[40] == rows[40] and "tool_calls" in written[0]["messages"][1]


@pytest.mark.parametrize("asked", [True, False])
def test_a_pair_of_a_text_and_a_conversation_needs_a_prompt(tmp_path: Path, asked: bool) -> None:
    question = [{"role": "user", "content": "Why?"}] * asked
    talk = [*question, {"role": "assistant", "content": "Because."}]
    (found,) = refused(tmp_path, [{"chosen": f"So {n}.", "rejected": talk} for n in range(40)], "dpo-full")
    assert "`chosen` holds a text and `rejected` a conversation, and no `prompt` says" in found.labels[0].message
    assert found.help[0].startswith("write what is asked before both answers into a column `prompt`")


def test_a_faulty_pair_is_not_a_fault_of_held_out_pairs(tmp_path: Path) -> None:
    pairs = [{"prompt": f"Why {n}?", "chosen": f"So {n}.", "rejected": f"No {n}."} for n in range(40)]
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    recipe = with_key(with_key(BASES["sft-dpo"], "data.preferences", "judged.jsonl"), "data.eval", "held.jsonl")
    faulty = [*pairs[5:], {**pairs[0], "chosen": None}]
    (tmp_path / "judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in faulty))
    found = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code[0] == "E"]
    assert [(one.code, one.title) for one in found] == [("E0304", "`judged.jsonl:36` cannot be used")]
