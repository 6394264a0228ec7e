"""The draft of the registry entry has every hyperparameter that the recipe can set, as the plan decides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key, write_data

from recipec.recipe.schema_shapes import Lora
from recipec.recipe.schema_training import Learning
from recipec.rules import RULES

# Keys of [train] that say how often a run is looked at or saved, and what is passed on: nothing that the result has.
OF_THE_RUN = {"micro_batch_size", "eval_every", "save_every", "early_stopping_patience", "logging_steps", "arguments"}


@pytest.mark.parametrize("name", ["lora-single", "qlora", "full-fsdp", "dpo-full", "pretrain"])
def test_every_key_that_shapes_the_result_is_in_it(tmp_path: Path, name: str) -> None:
    found = good(tmp_path, BASES[name])
    entry = json.loads(texts(found)["registry/entry.json"])
    keys = {f"train.{key}" for key in Learning.model_fields if key not in OF_THE_RUN}
    keys |= {f"train.lora.{key}" for key in Lora.model_fields}
    decided = {rule.decides for rule in RULES.values() if rule.key in keys}

    for stage in found.plan.stages:
        held = entry["hyperparameters"][stage.stage.label]
        wanted = {id: stage.decisions[id].value for id in decided if id in stage.decisions}
        assert {id: held.get(id, "not there") for id in wanted} == json.loads(json.dumps(wanted))
    assert "license" in entry and "licence" not in entry


HUB = {"hub": "org/chats", "subset": "en", "split": "train_sft", "revision": "0123abc", "weight": 0.5}
NAMED = {  # data.train -> the data set of the entry
    "a file": ("chat.jsonl", "chat.jsonl"),
    "two files": (["chat.jsonl", "more.jsonl"], "chat.jsonl, more.jsonl"),
    "the Hub": ({"hub": "org/chats"}, "org/chats of the Hub (train)"),
    "a mixture": (
        ["chat.jsonl", HUB],
        "chat.jsonl, org/chats of the Hub (en, train_sft, revision 0123abc) (0.5 times its rows)",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_the_data_set_is_named_as_the_recipe_names_it(tmp_path: Path, kind: str) -> None:
    train, named = NAMED[kind]
    write_data(tmp_path)
    said = (("user", "And why?"), ("assistant", "So."))
    messages = [{"role": role, "content": content} for role, content in said]
    (tmp_path / "more.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    recipe = with_key(with_key(BASES["lora-single"], "data.train", train), "data.format", "chat")
    entry = json.loads(texts(good(tmp_path, recipe))["registry/entry.json"])
    assert entry["dataset"]["name"] == {"sft": named}


def test_each_stage_names_its_own_data(tmp_path: Path) -> None:
    entry = json.loads(texts(good(tmp_path, BASES["sft-dpo"]))["registry/entry.json"])
    assert entry["dataset"]["name"] == {"sft": "chat.jsonl", "dpo": "pairs.jsonl"}


CARDS = {  # base -> file -> lines of it
    "lora-single": {
        "": ["base_model: Qwen/Qwen3-8B", "library_name: peft", "- Base: Qwen/Qwen3-8B.", "- Rows: chat.jsonl."]
    },
    "pretrain": {"": ["library_name: transformers", "- Loading: `from_pretrained` of transformers."]},
    "sft-dpo": {
        "-sft": ["base_model: Qwen/Qwen2.5-7B"],
        "-dpo": ["- Base: outputs/sft/merged.", "- Rows: pairs.jsonl."],
    },
}


@pytest.mark.parametrize("name", CARDS)
def test_the_result_gets_a_card_that_is_true(tmp_path: Path, name: str) -> None:
    bundle = texts(good(tmp_path, BASES[name]))
    for stage, wanted in CARDS[name].items():
        card = bundle[f"registry/model_card{stage}.md"].splitlines()
        assert [line for line in wanted if line not in card] == []
        assert ("base_model" in "".join(card)) is ("base_model" in "".join(wanted)), "of the Hub alone: no folder is"
        assert (
            sum(f'/ "registry/model_card{stage}.md"  # README.md of the result' in text for text in bundle.values())
            == 1
        )
