"""Conversations whose turns the model's chat template refuses are told when the recipe is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, with_key

from recipec.compiler import Compilation
from recipec.diagnostics.model import Diagnostic

MISTRAL = (
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "mistralai/Mistral-7B-Instruct-v0.1",
)
ASKED, SAID = {"role": "user", "content": "asked"}, {"role": "assistant", "content": "said"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a12345678", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "content": "1", "tool_call_id": "a12345678"}


def told(folder: Path, model: str, turns: list[dict[str, Any]]) -> list[str]:
    return codes(made(folder, model, turns))


def errors(folder: Path, model: str, turns: list[dict[str, Any]]) -> list[Diagnostic]:
    return [found for found in made(folder, model, turns).diagnostics if found.code == "E0304"]


def made(folder: Path, model: str, turns: list[dict[str, Any]]) -> Compilation:
    rows = [json.dumps({"messages": [*turns, {**ASKED, "content": f"{n}?"}, SAID]}) for n in range(40)]
    (folder / "turns.jsonl").write_text("\n".join(rows))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "turns.jsonl"), "model.name", model)
    return compiled(folder, recipe, only_plan=True)


@pytest.mark.parametrize("model", MISTRAL)
@pytest.mark.parametrize("turns", [[ASKED], [ASKED, SAID, SAID]])
def test_turns_that_do_not_alternate_are_refused_for_mistral(tmp_path: Path, model: str, turns: list) -> None:
    assert "E0304" in told(tmp_path, model, turns)
    assert "E0304" not in told(tmp_path, model, [ASKED, SAID])


def test_calls_of_tools_and_their_results_do_not_count_where_a_template_passes_over_them(tmp_path: Path) -> None:
    turns = [ASKED, CALL, RESULT, SAID]
    assert "E0304" not in told(tmp_path, MISTRAL[0], turns)
    assert "E0304" in told(tmp_path, "google/gemma-3-4b-it", turns)


def test_models_that_take_any_turns_get_them(tmp_path: Path) -> None:
    assert "E0304" not in told(tmp_path, "Qwen/Qwen2.5-7B-Instruct", [ASKED, ASKED])


BOTH = {**CALL, "tool_calls": [*CALL["tool_calls"], {"id": "b12345678", "function": {"name": "f", "arguments": "{}"}}]}
OTHER = {**RESULT, "tool_call_id": "b12345678"}


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"])
def test_several_calls_in_one_message_are_refused_where_a_template_writes_one(tmp_path: Path, model: str) -> None:
    (found,) = errors(tmp_path, model, [ASKED, BOTH, RESULT, OTHER, SAID])
    assert "message 2 has 2 calls of tools" in found.labels[0].message and "a message of its own" in found.help[0]
    assert "E0304" not in told(
        tmp_path, model, [ASKED, CALL, RESULT, {**BOTH, "tool_calls": BOTH["tool_calls"][1:]}, OTHER, SAID]
    )
    assert "E0304" not in told(tmp_path, "Qwen/Qwen3-8B", [ASKED, BOTH, RESULT, OTHER, SAID])


def test_of_a_template_without_tools_it_is_said_that_it_writes_none(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, "google/gemma-3-4b-it", [ASKED, CALL, RESULT, SAID])
    assert "the template writes no tools" in found.labels[0].message
    assert not any("join messages" in line for line in found.help)
