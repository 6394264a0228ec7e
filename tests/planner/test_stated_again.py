"""A recipe that states what its plan chose by itself is planned as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.layout import Layout


def of(model: str, nodes: int, gpus: int, network_gbps: int, **keys: Any) -> Tables:
    """Supervised fine-tuning on H100s, of many rows."""
    recipe: Tables = {
        "recipe": {"name": "again"},
        "goal": {"task": "instruct"},
        "model": {"name": f"meta-llama/{model}"},
        "data": {"train": "chat.jsonl", "examples": 300_000, "tokens_per_example": 500, "max_length": 2_048},
        "hardware": {"gpu": "h100", "gpus_per_node": gpus, "nodes": nodes, "network_gbps": network_gbps},
    }
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


def planned(folder: Path, recipe: Tables) -> Layout:
    plan = compiled(folder, recipe, only_check=True).plan
    assert plan is not None
    return plan.stages[0].layout


RECIPES = {
    "adapters are compared with the batch that they may have": of("Llama-3.1-70B", 6, 8, 170),
    "adapters have the batch of their own": of("Llama-3.1-70B", 4, 8, 25),
    "ranks make nearly the batch": of("Llama-3.1-8B", 6, 8, 400),
    "more ranks before another training": of("Llama-3.1-8B", 3, 5, 100),
    "a batch that ranks can make": of("Llama-3.1-70B", 24, 6, 100, hardware__gpu="h200", train__adaptation="full"),
    "as large a batch as is accepted": of("Llama-3.1-8B", 9, 7, 200, train__adaptation="full"),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_what_the_plan_chose_can_be_stated(tmp_path: Path, recipe: Tables) -> None:
    found = planned(tmp_path, recipe)
    for key in ("global_batch_size", "micro_batch_size", "strategy", "adaptation"):
        stated = with_key(recipe, f"train.{key}", getattr(found, key.removesuffix("_size")))
        assert planned(tmp_path, stated) == found, key


def test_full_fine_tuning_is_compared_with_adapters_in_the_batch_that_these_may_have(tmp_path: Path) -> None:
    """With 32 rows in a step they would wait for the network as it does, and with 128 they take a fifth of the time."""
    found = planned(tmp_path, of("Llama-3.1-70B", 6, 8, 100))
    assert found.adapts.name == "lora" and 64 < found.global_batch <= 128


SLOW_B200 = {"gpu": "b200", "gpus_per_node": 8, "network_gbps": 100}


def answers(gpus: int, nodes: int = 1) -> Tables:
    recipe = with_key(
        with_key(BASES["rloo"], "hardware", {"gpu": "h200", "gpus_per_node": gpus}), "data.examples", 40_000
    )
    fast = {"nodes": nodes, "network_gbps": 1_600} if nodes > 1 else {}
    return with_key(recipe, "hardware", {**recipe["hardware"], **fast})


@pytest.mark.parametrize(("gpus", "nodes", "batch"), [(4, 1, 128), (6, 1, 144), (8, 1, 128), (8, 4, 512)])
def test_every_gpu_writes_as_many_answers_whatever_is_stated(tmp_path: Path, gpus: int, nodes: int, batch: int) -> None:
    """A plan on which GPUs are idle, and one whose strategy is stated, have the same batch."""
    recipe = answers(gpus, nodes)
    found = planned(tmp_path, recipe)
    assert found.gpus == gpus * nodes and abs(found.global_batch - batch) <= 0.1 * batch
    for key in ("strategy", "micro_batch_size"):
        stated = planned(tmp_path, with_key(recipe, f"train.{key}", getattr(found, key.removesuffix("_size"))))
        assert stated == found


@pytest.mark.parametrize(("nodes", "batch"), [(4, 512), (5, 600)])
def test_answers_for_each_gpu_are_as_many_as_leave_enough_steps(tmp_path: Path, nodes: int, batch: int) -> None:
    """640 would leave 98 steps: 600 are taken, and not one answer for each GPU in place of 16."""
    recipe = with_key(BASES["on-policy-distill"], "data.examples", 62_717)
    found = planned(tmp_path, with_key(recipe, "hardware", {**SLOW_B200, "nodes": nodes}))
    assert found.gpus == 8 * nodes and abs(found.global_batch - batch) <= 0.07 * batch


def test_answers_are_no_more_than_give_all_gpus_work(tmp_path: Path) -> None:
    recipe = with_key(BASES["on-policy-distill"], "data.examples", 93_182)
    pairs = {"gpu": "h100", "gpus_per_node": 2, "nodes": 2, "network_gbps": 400}
    found = planned(tmp_path, with_key(recipe, "hardware", pairs))
    assert (found.gpus, found.global_batch) == (4, 128)


def test_what_took_the_place_of_another_training_keeps_its_place_among_the_rest(tmp_path: Path) -> None:
    """LoRA is searched again for its own batch, and still stands before QLoRA, which is no reason for it."""
    plan = compiled(tmp_path, of("Llama-3.1-70B", 4, 8, 25), only_plan=True).plan
    assert plan is not None
    (stage,) = plan.stages
    assert stage.layout.adaptation == "lora"
    because = stage.decisions["adaptation"].because
    assert "full fine-tuning fits, but takes " in because and "QLoRA" not in because
    (row,) = [row for row in stage.rejected if row.family.startswith("QLoRA")]
    assert row.reason.endswith("recipec prefers LoRA")
