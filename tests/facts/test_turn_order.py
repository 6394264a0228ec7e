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


LOOKS = {**CALL, "content": "I look."}
LLAMA, GPT_OSS = "meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-20b"
TOLD, LATE = {"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("model", [LLAMA, GPT_OSS])
def test_a_text_beside_a_call_is_refused_where_a_template_leaves_it_out(tmp_path: Path, model: str) -> None:
    (found,) = errors(tmp_path, model, [ASKED, SAID, ASKED, LOOKS, RESULT, SAID])
    assert "message 4 has a text beside a call of a tool" in found.labels[0].message
    assert "cannot write 40 of 40" in found.title and found.help[0].startswith("remove the text beside the call")
    apart = [ASKED, {**SAID, "content": "I look."}, CALL, RESULT, SAID]
    assert "E0304" not in told(tmp_path, model, apart)
    assert "E0304" not in told(tmp_path, "Qwen/Qwen3-8B", [ASKED, LOOKS, RESULT, SAID])


def test_a_text_beside_a_call_that_no_answer_follows_is_written_by_gpt_oss(tmp_path: Path) -> None:
    rows = [json.dumps({"messages": [{**ASKED, "content": f"{n}?"}, LOOKS]}) for n in range(40)]
    (tmp_path / "turns.jsonl").write_text("\n".join(rows))
    recipe = with_key(BASES["lora-single"], "data.train", "turns.jsonl")
    refused = {
        m: codes(compiled(tmp_path, with_key(recipe, "model.name", m), only_plan=True)) for m in (GPT_OSS, LLAMA)
    }
    assert "E0304" not in refused[GPT_OSS] and "E0304" in refused[LLAMA]


def test_the_help_for_several_calls_says_that_a_text_beside_a_call_is_left_out(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, LLAMA, [ASKED, BOTH, RESULT, OTHER, SAID])
    assert "the template leaves out a text beside a call" in found.help[0]


@pytest.mark.parametrize("model", ["microsoft/Phi-3.5-mini-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"])
def test_calls_are_refused_where_a_template_writes_none(tmp_path: Path, model: str) -> None:
    (found,) = errors(tmp_path, model, [ASKED, CALL, RESULT, SAID])
    assert "message 2 calls a tool, and the template writes no tools" in found.labels[0].message
    assert any("before their first call" in line for line in found.help)


@pytest.mark.parametrize("turns", [[TOLD, LATE, ASKED, SAID], [TOLD, ASKED, LATE, ASKED, SAID]])
def test_a_later_system_message_is_refused_where_a_template_writes_the_first_alone(tmp_path: Path, turns: list) -> None:
    (found,) = errors(tmp_path, GPT_OSS, turns)
    assert f"message {turns.index(LATE) + 1} is a system message" in found.labels[0].message
    assert "later system messages" in found.help[0]
    assert "E0304" not in told(tmp_path, LLAMA, turns) and "E0304" not in told(tmp_path, GPT_OSS, [TOLD, ASKED, SAID])


def test_a_message_has_its_number_in_the_row_also_where_the_recipe_gives_a_system_message(tmp_path: Path) -> None:
    rows = [json.dumps({"messages": [{**ASKED, "content": f"{n}?"}, LOOKS, RESULT, SAID]}) for n in range(40)]
    (tmp_path / "turns.jsonl").write_text("\n".join(rows))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "turns.jsonl"), "data.system", "Be kind.")
    made = compiled(tmp_path, with_key(recipe, "model.name", LLAMA), only_plan=True)
    (found,) = [found for found in made.diagnostics if found.code == "E0304"]
    assert "message 2 has a text" in found.labels[0].message


@pytest.mark.parametrize(("model", "own"), [("google/gemma-3-4b-it", False), ("Qwen/Qwen3-8B", True)])
def test_a_template_that_writes_no_tools_is_answered_with_the_models_own_where_it_writes_them(
    tmp_path: Path, model: str, own: bool
) -> None:
    rows = [json.dumps({"messages": [{**ASKED, "content": f"{n}?"}, CALL, RESULT, SAID]}) for n in range(40)]
    (tmp_path / "turns.jsonl").write_text("\n".join(rows))
    data = {"train": "turns.jsonl", "template": "chatml"}
    recipe = with_key(BASES["lora-single"] | {"data": data}, "model.name", model)
    found = compiled(tmp_path, recipe, only_plan=True).diagnostics
    (error,) = [one for one in found if one.code == "E0401" and "does not write tools" in one.title]
    assert any('`template = "model"`' in line for line in error.help) == own
    assert error.help[-1].endswith("or take a model whose chat template writes tools and calls")
    plain = compiled(tmp_path, with_key(recipe, "data.template", "model"), only_plan=True).diagnostics
    assert any(one.code[0] == "E" for one in plain) != own
