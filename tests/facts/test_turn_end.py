"""What ends a turn of the chosen chat template, and what recipec does where the tokenizer may lack that token."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.cli.group import recipec

END = "<|im_end|>"
SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}
CHAT = with_key(BASES["lora-single"], "data.template", "chatml")


def of_model(name: str, base: Tables = CHAT) -> Tables:
    return with_key(base, "model.name", name)


def decided(folder: Path, recipe: Tables) -> dict[str, Any]:
    plan = good(folder, recipe).plan
    assert plan is not None
    return {id: plan.stages[-1].decisions[id] for id in ("template_end", "has_turn_end", "eos_token")}


def refusal(folder: Path, recipe: Tables) -> Any:
    (found,) = [one for one in compiled(folder, recipe).diagnostics if one.code == "E0401"]
    return found


def saved(folder: Path, *added: str) -> Path:
    """A model folder without weights, whose tokenizer has added tokens."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE))
    tokens = [{"id": 998 + place, "content": token} for place, token in enumerate(added)]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens, "model": {"vocab": {"a": 0}}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    return folder


def test_a_base_model_that_has_the_token_stops_at_it(tmp_path: Path) -> None:
    found = decided(tmp_path, of_model("Qwen/Qwen2.5-7B"))
    assert [found[id].value for id in ("template_end", "has_turn_end", "eos_token")] == [END, True, END]
    assert "`chatml`" in found["template_end"].because


def test_a_model_that_stops_there_keeps_its_token(tmp_path: Path) -> None:
    found = decided(tmp_path, of_model("Qwen/Qwen3-8B"))
    assert found["eos_token"].value == "none" and END in found["eos_token"].because


@pytest.mark.parametrize(
    ("name", "way"),
    [("mistralai/Mistral-7B-v0.1", "plain"), ("meta-llama/Llama-3.1-8B-Instruct", "model")],
)
@pytest.mark.parametrize("base", ["lora-single", "grpo", "sft-dpo"])
def test_a_family_without_the_token_is_refused(tmp_path: Path, name: str, way: str, base: str) -> None:
    found = refusal(tmp_path, of_model(name, with_key(BASES[base], "data.template", "chatml")))
    assert END in found.title and f'`template = "{way}"`' in found.help[0]


def test_a_reward_model_ends_nothing(tmp_path: Path) -> None:
    assert good(tmp_path, with_key(BASES["reward"], "data.template", "chatml")).files


@pytest.mark.parametrize("model", [{"name": "01-ai/Yi-6B"}, {"name": "a/b", "like": "mistralai/Mistral-7B-v0.1"}])
def test_what_is_not_known_is_assumed_and_looked_for(tmp_path: Path, model: Tables) -> None:
    recipe = with_key(CHAT, "model", model)
    found = decided(tmp_path, recipe)
    assert (found["has_turn_end"].value, found["eos_token"].value) == (None, END)
    assert "assumes" in found["eos_token"].because
    files = texts(good(tmp_path, recipe))
    assert f'TURN_END = "{END}"' in files["prepare_data.py"]
    assert f'eos_token="{END}"' in files["train.py"]
    assert f'in (tokenizer.eos_token, "{END}")' in files["rows.py"]


def test_a_copy_may_have_tokens_that_its_original_lacks(tmp_path: Path) -> None:
    found = decided(tmp_path, of_model("unsloth/Llama-3.2-1B"))
    assert found["has_turn_end"].value is None


@pytest.mark.parametrize("added", [(), ("<tool>",), (END,), ("<|im_start|>", END)])
def test_a_folder_shows_whether_it_has_the_token(tmp_path: Path, added: tuple[str, ...]) -> None:
    saved(tmp_path / "own", *added)
    recipe = of_model("./own")
    if END in added:
        found = decided(tmp_path, recipe)
        assert found["eos_token"].value == END and "./own" in found["has_turn_end"].because
    else:
        assert "./own lacks" in refusal(tmp_path, recipe).labels[0].message


def test_a_model_in_the_cache_shows_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tmp_path / "hub" / "models--org--own"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("abc")
    (entry / "snapshots").mkdir()
    saved(entry / "snapshots" / "abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert "org/own lacks" in refusal(tmp_path, of_model("org/own")).labels[0].message


def test_the_text_of_a_file_may_be_known(tmp_path: Path) -> None:
    text = resources.files("trl").joinpath("chat_templates", "qwen2_5.jinja").read_text()
    (tmp_path / "own.jinja").write_text(text)
    recipe = with_key(of_model("Qwen/Qwen2.5-Coder-7B"), "data.template", "./own.jinja")
    found = decided(tmp_path, recipe)
    assert found["eos_token"].value == END and "./own.jinja" in found["template_end"].because
    (tmp_path / "own.jinja").write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    found = decided(tmp_path, recipe)
    assert found["eos_token"].value == "none" and "not known" in found["eos_token"].because
    assert "TURN_END" not in texts(good(tmp_path, recipe))["prepare_data.py"]


def test_plain_ends_with_the_models_own_token(tmp_path: Path) -> None:
    for template in ("plain", None):
        found = decided(tmp_path, with_key(of_model("mistralai/Mistral-7B-v0.1"), "data.template", template or "auto"))
        assert found["template_end"].value == "" and "`plain`" in found["template_end"].because


def test_a_template_of_a_model_that_is_only_like_another_may_end_otherwise(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-single"], "model", {"name": "a/b", "like": "Qwen/Qwen3-8B"})
    files = texts(good(tmp_path, recipe))
    assert "added_tokens_decoder" in files["rows.py"] and "TURN_END" not in files["prepare_data.py"]
    assert f'"{END}"' in texts(good(tmp_path, BASES["lora-single"]))["rows.py"]


def test_what_is_assumed_of_an_own_template_is_looked_for_too(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-single"], "model", {"name": "a/b", "like": "Qwen/Qwen2.5-7B"})
    assert decided(tmp_path, recipe)["eos_token"].value == END
    assert f'TURN_END = "{END}"' in texts(good(tmp_path, recipe))["prepare_data.py"]
    known = of_model("Qwen/Qwen2.5-7B", BASES["lora-single"])
    assert "TURN_END" not in texts(good(tmp_path, known))["prepare_data.py"]


def test_the_plan_says_what_it_assumes(tmp_path: Path) -> None:
    assumption = f"assumes  the tokenizer has {END}, which ends turns of the chat template"
    for name, assumed in (("01-ai/Yi-6B", True), ("Qwen/Qwen2.5-7B", False)):
        good(tmp_path, of_model(name))
        shown = CliRunner().invoke(recipec, ["plan", str(tmp_path / "recipe.toml")])
        assert (assumption in shown.output) is assumed, shown.output
