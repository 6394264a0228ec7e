"""A domain that is new to the model: its text is learned first, and what that leaves to the stages behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key, without

TEXT = with_key(BASES["text-sft"], "goal.new_domain", True)


def ranks(folder: Path, recipe: Tables) -> dict[str, object]:
    """The rank of the adapters of each stage."""
    plan = good(folder, with_key(recipe, "train.adaptation", "lora")).plan
    assert plan
    return {stage.stage.name: stage.decisions["lora_rank"].value for stage in plan.stages}


def test_a_domain_whose_text_was_learned_is_new_no_more(tmp_path: Path) -> None:
    assert ranks(tmp_path, TEXT) == {"continue-pretrain": 64, "sft": 16}
    assert ranks(tmp_path, without(TEXT, "data.domain_text")) == {"sft": 64}


def test_each_stage_starts_from_the_one_before(tmp_path: Path) -> None:
    files = texts(good(tmp_path, TEXT))
    assert 'MODEL = str(BUNDLE / "outputs" / "continue-pretrain")' in files["stages/2-sft/train.py"]
    merged = texts(good(tmp_path, with_key(TEXT, "train.adaptation", "lora")))
    assert 'MODEL = str(BUNDLE / "outputs" / "continue-pretrain" / "merged")' in merged["stages/2-sft/train.py"]
    assert "stages/1-continue-pretrain/merge_adapter.py" in merged["launch/local.sh"]


def test_every_stage_has_the_new_tokens(tmp_path: Path) -> None:
    files = texts(good(tmp_path, with_key(TEXT, "model.new_tokens", ["<|a|>"])))
    assert 'MODEL = str(BUNDLE / "extended-model")' in files["stages/1-continue-pretrain/train.py"]
    assert "trainable_token_indices" in files["stages/2-sft/train.py"]
    assert files["launch/local.sh"].count("vocabulary.py") == 1


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, False),
        ({"data.domain_text": None}, True),
        ({"data.domain_text": None, "goal.new_domain": False}, False),
        ({"data.domain_text": None, "data.train": "manual.txt", "goal.task": "continue-pretrain"}, False),
        ({"data.domain_text": None, "data.preferences": "pairs.jsonl", "goal.task": "align"}, True),
        ({"data.preferences": "pairs.jsonl", "goal.task": "align"}, False),
    ],
)
def test_a_new_domain_without_text_is_warned_about(tmp_path: Path, changes: Tables, warned: bool) -> None:
    recipe = TEXT
    for key, value in changes.items():
        recipe = with_key(recipe, key, value)
    assert ("W0540" in codes(compiled(tmp_path, recipe, only_plan=True))) is warned


@pytest.mark.parametrize(("base", "refused"), [("adapters", True), ("fusion", True), ("text-sft", False)])
def test_the_text_of_several_tasks_is_learned_in_a_recipe_before(tmp_path: Path, base: str, refused: bool) -> None:
    """[[adapters]] take no `data.domain_text`: what is advised is accepted."""
    recipe = with_key(with_key(BASES[base], "data.domain_text", None), "goal.new_domain", True)
    (help, *_), *_ = (one.help for one in compiled(tmp_path, recipe).diagnostics if one.code == "W0540")
    with_text = codes(compiled(tmp_path, with_key(recipe, "data.domain_text", "manual.txt")))
    assert ("E0414" in with_text) is refused
    assert ("domain_text" in help) is not refused
    assert ('`goal.task = "continue-pretrain"`' in help) is refused


def test_what_train_sets_is_for_the_last_stage(tmp_path: Path) -> None:
    plan = good(tmp_path, with_key(TEXT, "train.learning_rate", 1.5e-4)).plan
    assert plan
    text, answers = (stage.decisions["learning_rate"] for stage in plan.stages)
    assert (text.value, answers.value) == (2e-5, 1.5e-4)
    assert text.because.endswith("is for the last stage, sft")


@pytest.mark.parametrize("overflow", ["drop", "truncate"])
def test_text_loses_nothing_of_what_is_cut_from_answers(tmp_path: Path, overflow: str) -> None:
    done = good(tmp_path, with_key(TEXT, "data.overflow", overflow))
    assert done.plan
    text, answers = (stage.decisions["overflow"] for stage in done.plan.stages)
    assert (text.value, answers.value) == ("split", overflow)
    assert text.because.endswith("is for the last stage, sft")


def test_questions_are_not_looked_for_in_raw_text_and_the_readme_says_so(tmp_path: Path) -> None:
    done = good(tmp_path, TEXT)
    assert "W0531" not in codes(done)
    readme = texts(done)["README.md"]
    assert "Held-out questions of later stages are not looked for in the text" in readme
    assert "Nothing measures what the model forgets" in readme


@pytest.mark.parametrize(("template", "loop"), [("plain", "trainer"), ("chatml", "trainer"), ("chatml", "accelerate")])
def test_the_first_stage_with_the_bundles_chat_template_sets_it(tmp_path: Path, template: str, loop: str) -> None:
    """Its result has it, and so has a stage that starts from there; plain text has none where a base model has none."""
    bare = with_key(TEXT, "model.name", "meta-llama/Llama-3.2-3B")
    recipe = bare if template == "plain" else with_key(TEXT, "data.template", template)
    recipe = with_key(recipe, "train.loop", loop) if loop != "trainer" else recipe
    files = texts(good(tmp_path, recipe))
    setting = ["chat_template.jinja" in files[f"stages/{name}/train.py"] for name in ("1-continue-pretrain", "2-sft")]
    assert setting == [template == "chatml", template == "plain"]
