"""New tokens of a recipe: read from a list or a file, refused by name, and counted in the plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from compiling import BASES, compiled, good, texts, with_key
from test_turn_end import saved

from recipec.cli.group import recipec

RECIPE = BASES["lora-single"]


def tokens(folder: Path, content: bytes) -> list[str]:
    """The messages on a file of tokens, or what the bundle has of it."""
    (folder / "tokens.txt").write_bytes(content)
    done = compiled(folder, with_key(RECIPE, "model.new_tokens", "tokens.txt"))
    found = [f"{finding.code}: {finding.labels[0].message}" for finding in done.diagnostics if finding.code[0] == "E"]
    return found or [texts(done)["new_tokens.txt"]]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"<|a|>\n foo\n", "<|a|>\n foo\n"),
        (b"\xef\xbb\xbf<|a|>\r\nna\xc3\xafve", "<|a|>\nnaïve\n"),
        (b"", "E0312: no tokens"),
        (b"a|\n\nb|\n", "E0312: empty or only whitespace: entry 2"),
        (b"a|\nb|\na|\n", "E0312: listed more than once: 'a|'"),
        (b"a| \n", "E0312: with whitespace at the end, or more than a space at the start: 'a| '"),
        (b"\tb|\n", "E0312: with whitespace at the end, or more than a space at the start: '\\tb|'"),
        (b"a\x07b\n", "E0312: with a control or private-use character: 'a\\x07b'"),
        ("a\ue000b\n".encode(), "E0312: with a control or private-use character: 'a\\ue000b'"),
        (b"x" * 300, "E0312: longer than 256 characters: 'xxxxxxxxxxxxxxxxxxxx'"),
        (b"\n".join(b"t%d" % n for n in range(65_537)), "E0312: 65,537 tokens are more than 65,536"),
        (b"a|\n\xff\n", "E0003: byte 0xff in line 2"),
    ],
)
def test_a_file_of_tokens(tmp_path: Path, content: bytes, found: str) -> None:
    assert tokens(tmp_path, content) == [found]


def test_a_folder_is_no_file_of_tokens(tmp_path: Path) -> None:
    done = compiled(tmp_path, with_key(RECIPE, "model.new_tokens", "."))
    assert [finding.code for finding in done.diagnostics] == ["E0002"]


@pytest.mark.parametrize(
    ("model", "matrices"), [("Qwen/Qwen3-8B", ("embed_tokens", "lm_head")), ("Qwen/Qwen3-0.6B", ("embed_tokens",))]
)
def test_adapters_train_the_rows_of_new_tokens_alone(tmp_path: Path, model: str, matrices: tuple[str, ...]) -> None:
    recipe = with_key(RECIPE, "model.name", model)
    plain, added = (good(tmp_path, one) for one in (recipe, with_key(recipe, "model.new_tokens", ["<|a|>", "<|b|>"])))
    (before,), (after,) = ([stage.decisions for stage in done.plan.stages] for done in (plain, added) if done.plan)
    hidden = {"Qwen/Qwen3-8B": 4096, "Qwen/Qwen3-0.6B": 1024}[model]
    count = after["trainable_params"].value - before["trainable_params"].value
    assert count == 2 * hidden * len(matrices) and after["trained_rows"].value == 2
    rows = ", ".join(f'"{name}": [*new_tokens().values()]' for name in matrices)
    assert f"trainable_token_indices={{{rows}}}" in texts(added)["train.py"]
    assert (
        added.plan
        and plain.plan
        and added.plan.stages[0].memory.peak_allocated_bytes > (plain.plan.stages[0].memory.peak_allocated_bytes)
    )


def test_a_full_model_trains_all_rows_and_counts_them(tmp_path: Path) -> None:
    recipe = BASES["full-fsdp"]
    plain, added = (good(tmp_path, one) for one in (recipe, with_key(recipe, "model.new_tokens", ["<|a|>"])))
    (before,), (after,) = ([stage.decisions for stage in done.plan.stages] for done in (plain, added) if done.plan)
    assert after["trainable_params"].value == before["trainable_params"].value + 2 * 64 * 4096
    script = texts(added)["train.py"]
    assert "trainable_token_indices" not in script and "check_new_tokens(trainer.train_dataset)" in script


def test_a_later_stage_goes_on_with_the_vocabulary(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["dpo-full"], "data.train", "chat.jsonl"), "train.adaptation", "lora")
    recipe = with_key(recipe, "model.new_tokens", ["<|a|>"])
    done = good(tmp_path, recipe)
    files = texts(done)
    assert [stage.stage.name for stage in done.plan.stages] == ["sft", "dpo"] if done.plan else False
    assert 'MODEL = str(BUNDLE / "extended-model")' in files["stages/1-sft/train.py"]
    assert 'MODEL = str(BUNDLE / "outputs" / "sft" / "merged")' in files["stages/2-dpo/train.py"]
    assert "new_tokens" not in files["stages/2-dpo/train.py"]
    assert json.loads(files["registry/entry.json"])["artifacts"]["adapter_base"] == "outputs/sft/merged"


def test_other_tokens_make_another_run(tmp_path: Path) -> None:
    plans = [
        next(
            line
            for line in texts(good(tmp_path, with_key(RECIPE, "model.new_tokens", [token])))["train.py"].splitlines()
            if line.startswith("PLAN = ")
        )
        for token in ("<|a|>", "<|b|>")
    ]
    assert plans[0] != plans[1]


def test_an_end_of_turns_may_be_a_new_token(tmp_path: Path) -> None:
    recipe = with_key(with_key(RECIPE, "model.name", "meta-llama/Llama-3.1-8B"), "data.template", "chatml")
    refused = compiled(tmp_path, recipe)
    assert any('new_tokens = ["<|im_end|>"]' in help for finding in refused.diagnostics for help in finding.help)
    files = texts(good(tmp_path, with_key(recipe, "model.new_tokens", ["<|im_start|>", "<|im_end|>"])))
    assert 'eos_token="<|im_end|>"' in files["train.py"]


def test_a_text_part_is_extended(tmp_path: Path) -> None:
    recipe = with_key(with_key(RECIPE, "model.name", "google/gemma-3-4b-it"), "model.new_tokens", ["<|a|>"])
    files = texts(good(tmp_path, recipe))
    assert 'MODEL = str(BUNDLE / "text-part")' in files["vocabulary.py"]
    order = [files["launch/local.sh"].index(name) for name in ("text_part.py", "vocabulary.py", "train.py")]
    assert order == sorted(order)


@pytest.mark.parametrize(("new", "helps"), [(["<pad>"], 1), (["<pad>", "a "], 2), (["a "], 1)])
def test_a_token_that_the_model_has_is_to_be_left_out(tmp_path: Path, new: list[str], helps: int) -> None:
    saved(tmp_path / "own", "<pad>")
    recipe = with_key(with_key(RECIPE, "model.name", "./own"), "model.new_tokens", new)
    (found,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0312"]
    assert any("leave tokens out that the model has" in line for line in found.help) is ("<pad>" in new)
    assert len(found.help) == helps


def test_what_is_not_known_of_a_vocabulary_is_assumed_and_told(tmp_path: Path) -> None:
    saved(tmp_path / "own", "<pad>")
    for name, assumed in (("./own", False), ("Qwen/Qwen2.5-7B", True)):
        good(tmp_path, with_key(with_key(RECIPE, "model.name", name), "model.new_tokens", ["<|a|>"]))
        shown = CliRunner().invoke(recipec, ["plan", str(tmp_path / "recipe.toml")])
        assert ("assumes  the tokenizer lacks every token of model.new_tokens" in shown.output) is assumed, shown.output


def test_where_lora_becomes_qlora_the_new_tokens_are_named(tmp_path: Path) -> None:
    asked = with_key(with_key(RECIPE, "train.adaptation", "lora"), "model.name", "meta-llama/Llama-3.3-70B-Instruct")
    asked = with_key(asked, "hardware", {"gpu": "h100", "gpus_per_node": 8})
    for recipe, told in ((asked, False), (with_key(asked, "model.new_tokens", ["<|a|>"]), True)):
        warned = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "W0536"]
        assert any("model.new_tokens" in line for found in warned for line in found.help) is told
