"""The draft of the registry entry has every hyperparameter that the recipe can set, as the plan decides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, shape, texts, with_key, write_data


@pytest.mark.parametrize("name", BASES)
def test_hyperparameters_have_the_values_of_the_plan(name: str) -> None:
    found = shape(name)
    entry = json.loads(texts(found)["registry/entry.json"])
    assert "license" in entry and "licence" not in entry
    for stage in found.plan.stages:
        held = entry["hyperparameters"][stage.stage.label]
        assert held == json.loads(json.dumps({id: stage.decisions[id].value for id in held}))


SETS = {  # what makes another run -> base -> what the recipe sets -> the entry's hyperparameters of its last stage
    "a narrower adapter": ("fusion", {"train.bottleneck": {"reduction_factor": 8}}, {"reduction_factor": 8}),
    "a teacher": ("distill", {}, {"teacher": "Qwen/Qwen2.5-7B-Instruct", "kd_beta": 0.0}),
    "held weights": (
        "dpo-full",
        {
            "goal.task": "instruct",
            "data": {"train": "chat.jsonl", "general": "general.jsonl", "replay": 0.15},
            "train.ewc": {"strength": 2.0, "rows": 4},
        },
        {"ewc_strength": 2.0, "ewc_rows": 4, "replay": 0.15},
    ),
    "what follows from them": (
        "lora-single",
        {"train.schedule": "warmup-stable-decay"},
        {"decay_share": 0.1, "adam_beta2": 0.999, "loss_on": "assistant", "eos_token": "none"},
    ),
    "what is passed on": (
        "lora-single",
        {"train.arguments": {"neftune_noise_alpha": 5.0}},
        {"arguments": {"neftune_noise_alpha": 5.0}},
    ),
}


@pytest.mark.parametrize("what", SETS)
def test_what_makes_another_run_is_in_it(tmp_path: Path, what: str) -> None:
    """That no key is missing is held in tests/compiler/test_every_key_counts.py."""
    recipe, sets, wanted = BASES[SETS[what][0]], *SETS[what][1:]
    for key, value in sets.items():
        recipe = with_key(recipe, key, value)
    found = good(tmp_path, recipe)
    held = json.loads(texts(found)["registry/entry.json"])["hyperparameters"][found.plan.stages[-1].stage.label]
    assert held.items() >= wanted.items()


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


def test_each_stage_names_its_own_data() -> None:
    entry = json.loads(texts(shape("sft-dpo"))["registry/entry.json"])
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
def test_the_result_gets_a_card_that_is_true(name: str) -> None:
    bundle = texts(shape(name))
    for stage, wanted in CARDS[name].items():
        card = bundle[f"registry/model_card{stage}.md"].splitlines()
        assert [line for line in wanted if line not in card] == []
        assert ("base_model" in "".join(card)) is ("base_model" in "".join(wanted)), "of the Hub alone: no folder is"
        assert (
            sum(f'/ "registry/model_card{stage}.md"  # README.md of the result' in text for text in bundle.values())
            == 1
        )
