"""The draft of the registry entry has every hyperparameter that the recipe can set, as the plan decides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, texts

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
