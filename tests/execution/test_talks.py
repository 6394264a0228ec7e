"""What conversations begin and end with: when the recipe is compiled as when the rows are prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from emitted_modules import load

from recipec.dataset import BadContent, DataShape, RowReading, Unanswered, converted

SYSTEM = {"from": "system", "value": "Be brief."}
ASK, ANSWER = {"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}
S, U, A = "system", "user", "assistant"
# Conversation -> who speaks in what is learned, with `skip` and with `learn`.
TALKS: dict[str, tuple[list[dict[str, str]], list[str], list[str]]] = {
    "asked first": ([ASK, ANSWER], [U, A], [U, A]),
    "a greeting": ([ANSWER, ASK, ANSWER], [U, A], [A, U, A]),
    "behind a system prompt": ([SYSTEM, ANSWER, ANSWER, ASK, ANSWER], [S, U, A], [S, A, A, U, A]),
    "nothing asked": ([ANSWER], [A], [A]),
    "a system prompt asks": ([SYSTEM, ANSWER], [S, A], [S, A]),
}
REFUSED = ("a greeting", "behind a system prompt")
SHAPE = DataShape("chat", {"messages": "conversations"}, "from-value", "")


def rows_in(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("key", ["", "skip", "learn"])
@pytest.mark.parametrize("weights", [False, True])
def test_answers_before_the_first_question_are_as_the_recipe_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, weights: bool
) -> None:
    marked = {"weight": 1} if weights else {}
    rows_in(tmp_path, [{"conversations": [ASK, ANSWER | marked]}] * 8)
    recipe = with_key(
        BASES["lora-single"], "data", {"train": "talks.jsonl"} | ({"opening_answers": key} if key else {})
    )
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path, recipe))["prepare_data.py"])
    prepared = load(tmp_path / "prepare_data.py", monkeypatch).from_chat
    reading = RowReading(("weight",) if weights else (), opening_answers=key)
    for name, (turns, skipped, learned) in TALKS.items():
        row = {"conversations": turns}
        if name in REFUSED and not key:
            for convert in (prepared, lambda row: converted(row, SHAPE, reading)):
                with pytest.raises((ValueError, BadContent), match="begins with an answer"):
                    convert(row)
            continue
        wanted = skipped if key == "skip" else learned
        assert [said["role"] for said in prepared(row)["messages"]] == wanted, name
        assert [said["role"] for said in converted(row, SHAPE, reading)["messages"]] == wanted, name


def test_a_greeting_alone_teaches_nothing() -> None:
    """All of it is left out, and what is left has no answer."""
    row = {"conversations": [ANSWER, ASK]}
    with pytest.raises(Unanswered):
        converted(row, SHAPE, RowReading(opening_answers="skip"))


@pytest.mark.parametrize("base", ["grpo", "rloo", "ppo", "on-policy-distill"])
def test_the_last_answer_of_a_prompt_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """Of every method that writes answers, and in rows of `from` and `value`, too."""
    asked = ({"from": "human", "value": f"{n}?"} for n in range(40))
    rows_in(tmp_path, [{"conversations": [ASK, ANSWER, again, ANSWER], "sum": "2"} for again in asked])
    source = {"path": "talks.jsonl", "columns": {"prompt": "conversations"}}
    found = good(tmp_path, with_key(BASES[base], "data.prompts", source))
    bundle = texts(found)
    (tmp_path / "prepare_data.py").write_text(bundle["prepare_data.py"])
    prepared = load(tmp_path / "prepare_data.py", monkeypatch).from_prompts
    row = {"conversations": [ASK, ANSWER, ASK, ANSWER], "sum": "2"}
    assert [said["role"] for said in prepared(row)["prompt"]] == [U, A, U]
    assert "an answer at the end of a prompt is left out" in bundle["README.md"]
    assert b"40 of 40 sampled prompts end with an answer" in found.plan_json


def test_two_system_prompts_are_both_shown_with_the_keys(tmp_path: Path) -> None:
    rows_in(tmp_path, [{"system": "Be kind.", "conversations": [SYSTEM, ASK, ANSWER]}] * 8)
    recipe = with_key(BASES["lora-single"], "data", {"train": "talks.jsonl"})
    (found,) = [one for one in compiled(tmp_path, recipe).diagnostics if one.code == "E0304"]
    assert "'Be brief.' and 'Be kind.'" in found.labels[0].message
    assert "jq -c" in found.help[0] and 'index("system")' in found.help[0]
    settled = with_key(recipe, "data.ignore", ["system"])
    assert not [one for one in compiled(tmp_path, settled).diagnostics if one.code.startswith("E")]


@pytest.mark.parametrize(("key", "told"), [("skip", "is left out"), ("learn", "is learned, too")])
def test_the_readme_says_what_becomes_of_answers_to_nothing(tmp_path: Path, key: str, told: str) -> None:
    rows_in(tmp_path, [{"conversations": [ANSWER, ASK, ANSWER]}] * 8)
    recipe = with_key(BASES["lora-single"], "data", {"train": "talks.jsonl", "opening_answers": key})
    said = f"what the assistant says before the first question {told}"
    assert said in texts(good(tmp_path, recipe))["README.md"]
