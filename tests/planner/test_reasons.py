"""The reasons of decisions hold for the very plan that they stand in."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key

from recipec.rules.core import Decision

MIXTURE = {"gpu": "b200", "gpus_per_node": 8}


def decided(folder: Path, recipe: Tables) -> dict[str, Decision]:
    plan = good(folder, recipe).plan
    assert plan
    return dict(plan.stages[-1].decisions)


@pytest.mark.parametrize(("adaptation", "says"), [("lora", "the router is frozen"), ("full", "while their router")])
def test_the_loss_of_a_router_says_whether_it_trains(tmp_path: Path, adaptation: str, says: str) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B"), "hardware", MIXTURE)
    built = good(tmp_path, with_key(recipe, "train.adaptation", adaptation))
    assert built.plan
    found = built.plan.stages[-1].decisions["router_loss"]
    assert says in found.because and {"model", "adaptation"} <= {*found.inputs}
    assert f"router_aux_loss_coef=0.001,  # {found.because}" in texts(built)["train.py"]


def test_blocks_of_text_are_not_said_to_change_length(tmp_path: Path) -> None:
    text, chats = (decided(tmp_path / name, BASES[name]) for name in ("text", "lora-single"))
    assert text["compile"].because.startswith("all blocks have one length")
    assert chats["compile"].because.startswith("batches change length")


def test_documents_that_share_a_block_are_said_to_see_each_other(tmp_path: Path) -> None:
    found = decided(tmp_path, BASES["text"])
    said = "documents of one block attend to each other"
    assert all(found[id].because.endswith(said) for id in ("packing", "packing_strategy"))
    assert "unpacked" not in found["packing"].watch


def test_passes_of_ppo_claim_no_share_of_the_time(tmp_path: Path) -> None:
    """A generation took a fifth of a run that was said to spend most of its time on it."""
    assert "most" not in decided(tmp_path, BASES["ppo"])["answer_passes"].because


def test_speed_first_takes_what_is_faster_by_a_few_percent(tmp_path: Path) -> None:
    """ZeRO-1 is 9% faster than FSDP2, which is simpler: equal as a rule, and not where a recipe puts speed first."""
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-1.5B"), "train.adaptation", "full")
    recipe = with_key(recipe, "hardware", {"gpu": "l40s", "gpus_per_node": 4})
    recipe = with_key(recipe, "train.global_batch_size", 256)
    usual = decided(tmp_path / "usual", recipe)["strategy"]
    fast = decided(tmp_path / "fast", with_key(recipe, "goal.priority", "speed"))["strategy"]
    assert (usual.value, fast.value) == ("fsdp", "zero1")
    assert "no more than 5%, because the recipe puts speed first, would count as equal" in fast.because
    assert "counts as equal (within 25%)" in usual.because and "priority" in fast.inputs
