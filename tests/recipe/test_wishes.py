"""What a recipe decides itself, for which stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.rules.core import Wish
from recipes import BASE, load

TRAIN = """\
[train]
adaptation = "qlora"
strategy = "auto"
learning_rate = 1e-4
epochs = 3
lora.rank = 8
precision = "bf16"
arguments = {neftune_noise_alpha = 0.9}
[train.sft]
learning_rate = 2e-4
max_steps = 100
lora.alpha = 16
arguments = {average_tokens_across_devices = false}
[alignment]
beta = 0.2
"""
ALIGN = BASE.replace("instruct", "align").replace("[hardware]", 'preferences = "p.jsonl"\n[hardware]')


@pytest.fixture
def wishes(tmp_path: Path) -> dict[str, dict[str, object]]:
    loaded = load(tmp_path, recipe=ALIGN + TRAIN)
    stages = {"sft": False, "dpo": True}
    return {name: {key: w.value for key, w in loaded.wishes(name, last).items()} for name, last in stages.items()}


def test_how_it_learns_holds_for_the_last_stage(wishes: dict[str, dict[str, object]]) -> None:
    assert (wishes["dpo"]["train.learning_rate"], wishes["dpo"]["train.epochs"]) == (1e-4, 3)
    assert wishes["sft"]["train.learning_rate"] == 2e-4


def test_how_it_runs_and_the_adapters_hold_for_all(wishes: dict[str, dict[str, object]]) -> None:
    for found in wishes.values():
        assert (found["train.precision"], found["train.lora.rank"], found["alignment.beta"]) == ("bf16", 8, 0.2)


def test_a_stages_own_table_overrides(wishes: dict[str, dict[str, object]]) -> None:
    assert wishes["sft"]["train.lora.alpha"] == 16
    assert "train.lora.alpha" not in wishes["dpo"]


def test_own_steps_displace_general_epochs(tmp_path: Path) -> None:
    found = load(tmp_path, recipe=BASE + TRAIN.split("[alignment]")[0]).wishes("sft", last=True)
    assert "train.epochs" not in found
    assert found["train.max_steps"] == Wish(100, "recipe.toml:22")
    assert found["train.arguments"].value == {"neftune_noise_alpha": 0.9, "average_tokens_across_devices": False}


def test_qlora_means_lora_on_nf4(wishes: dict[str, dict[str, object]]) -> None:
    assert (wishes["sft"]["train.adaptation"], wishes["sft"]["train.quantization"]) == ("lora", "nf4")


def test_auto_is_no_wish(wishes: dict[str, dict[str, object]]) -> None:
    assert "train.strategy" not in wishes["dpo"]


def test_whole_epochs_are_written_without_a_point(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-single"], "train.epochs", 2)
    entry = json.loads(texts(good(tmp_path, recipe))["registry/entry.json"])
    assert repr(entry["hyperparameters"]["sft"]["epochs"]) == "2"
