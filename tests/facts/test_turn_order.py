"""Conversations whose turns the model's chat template refuses are told when the recipe is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, with_key

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
    rows = [json.dumps({"messages": [*turns, {**ASKED, "content": f"{n}?"}, SAID]}) for n in range(40)]
    (folder / "turns.jsonl").write_text("\n".join(rows))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "turns.jsonl"), "model.name", model)
    return codes(compiled(folder, recipe, only_plan=True))


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
