"""Where several stages run, hints name the keys that hold for the stage in question."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, with_key

TWO = BASES["sft-dpo"]


def hints(folder: Path, recipe: Tables) -> dict[str, list[str]]:
    """Code -> titles and helps of its findings."""
    found: dict[str, list[str]] = {}
    for finding in compiled(folder, recipe, only_plan=True).diagnostics:
        found.setdefault(finding.code, []).extend([finding.title, *finding.help])
    return found


@pytest.mark.parametrize(("stage", "named"), [("sft", "train.sft.epochs"), ("dpo", "train.dpo.epochs")])
def test_few_steps_name_the_keys_of_their_stage(tmp_path: Path, stage: str, named: str) -> None:
    found = hints(tmp_path, with_key(with_key(TWO, "data.examples", 100), f"train.{stage}.epochs", 1))
    assert any(named in text for text in found["W0508"])
    assert not any("`train.epochs`" in text for text in found["W0508"])


def test_a_batch_that_is_not_met_names_the_key_of_its_stage(tmp_path: Path) -> None:
    found = hints(tmp_path, with_key(TWO, "train.dpo.global_batch_size", 33))
    assert found["W0510"][-1].startswith("set `train.dpo.global_batch_size = 32`, or another multiple of ")


@pytest.mark.parametrize(("wish", "named"), [(35, 36), (45, 48), (93, 96), (130, 128), (150, 144)])
def test_the_batch_that_is_named_has_many_divisors(tmp_path: Path, wish: int, named: int) -> None:
    """Not 44, 92, 132 or 148, which are nearer: a rank's share of 11, 23, 33 or 37 leaves few micro batches."""
    recipe = with_key(with_key(TWO, "hardware.gpus_per_node", 4), "train.dpo.global_batch_size", wish)
    assert f"`train.dpo.global_batch_size = {named}`" in hints(tmp_path, recipe)["W0510"][-1]
    assert "W0510" not in hints(tmp_path, with_key(recipe, "train.dpo.global_batch_size", named))


@pytest.mark.parametrize(("gpus", "nodes", "wish", "named"), [(6, 2, 128, 120), (6, 2, 16, 24), (6, 1, 17, 18)])
def test_the_batch_that_is_named_is_in_the_usual_range(
    tmp_path: Path, gpus: int, nodes: int, wish: int, named: int
) -> None:
    """Not 144, which has more divisors than the 120 that are planned, nor 12, which are planned for 16."""
    hardware = {"gpu": "a100-80gb", "gpus_per_node": gpus, "nodes": nodes} | (
        {"network_gbps": 400} if nodes > 1 else {}
    )
    recipe = with_key(with_key(BASES["lora-single"], "hardware", hardware), "train.global_batch_size", wish)
    assert f"`train.global_batch_size = {named}`" in hints(tmp_path, recipe)["W0510"][-1]
    assert not {"W0501", "W0510"} & {*hints(tmp_path, with_key(recipe, "train.global_batch_size", named))}


def test_what_is_known_to_fail_names_the_key_of_its_stage(tmp_path: Path) -> None:
    recipe = with_key(with_key(TWO, "train.dpo.eval_every", 0.2), "train.dpo.save_every", 0.5)
    found = " ".join(hints(tmp_path, recipe)["E0405"])
    assert "remove `train.dpo.save_every`: " in found and "set `train.dpo.eval_every = 0.125`: " in found


def test_a_value_outside_its_range_is_named_as_it_is_written(tmp_path: Path) -> None:
    own = hints(tmp_path, with_key(TWO, "train.dpo.learning_rate", 0.1))
    general = hints(tmp_path, with_key(TWO, "train.learning_rate", 0.1))
    assert own["W0501"][0].startswith("`train.dpo.learning_rate`")
    assert general["W0501"][0].startswith("`train.learning_rate`")


def test_a_decision_of_one_of_two_stages_names_its_own_key(tmp_path: Path) -> None:
    plan = compiled(tmp_path, TWO, only_plan=True).plan
    assert plan
    sft, dpo = plan.stages
    assert (sft.decisions["epochs"].key, dpo.decisions["epochs"].key) == ("train.sft.epochs", "train.dpo.epochs")
    assert "`train.dpo.lora.rank`" in dpo.decisions["lora_rank"].watch
    assert dpo.decisions["strategy"].key == "train.strategy", "strategies hold for all stages"


def test_what_to_remove_is_named_where_it_is_written(tmp_path: Path) -> None:
    recipe = with_key(with_key(TWO, "train.dpo.micro_batch_size", 512), "train.dpo.global_batch_size", 1024)
    found = hints(tmp_path, recipe)
    assert any(text.startswith("remove `train.dpo.micro_batch_size`") for text in found["E0402"])


def test_quantization_has_a_reason_of_its_own(tmp_path: Path) -> None:
    plan = compiled(tmp_path, BASES["qlora"], only_plan=True).plan
    assert plan
    decisions = plan.stages[0].decisions
    assert decisions["quantization"].because == "QLoRA trains an adapter on a quantized base model"
    assert decisions["quantization"].because != decisions["adaptation"].because
    assert "adaptation" in decisions["quantization"].inputs


def test_a_batch_for_fewer_gpus_leaves_the_others_idle(tmp_path: Path) -> None:
    recipe = with_key(with_key(TWO, "hardware.gpus_per_node", 8), "train.dpo.global_batch_size", 4)
    plan = compiled(tmp_path, with_key(recipe, "train.dpo.micro_batch_size", 1), only_plan=True).plan
    assert plan
    assert (plan.stages[1].layout.mesh.world_size, plan.stages[1].layout.global_batch) == (4, 4)


def test_an_earlier_stage_says_what_is_for_the_last_one(tmp_path: Path) -> None:
    recipe = with_key(with_key(with_key(TWO, "train.epochs", 1), "train.learning_rate", 1e-6), "train.sft.epochs", 2)
    first, last = good(tmp_path, recipe).plan.stages
    assert first.decisions["learning_rate"].because.endswith(" sets is for the last stage, dpo")
    assert "last stage" not in first.decisions["epochs"].because  # it has its own
    assert not [one for one in last.decisions.values() if "is for the last stage" in one.because]
    single = good(tmp_path / "one", with_key(BASES["lora-single"], "train.epochs", 1)).plan.stages[0]
    assert not [one for one in single.decisions.values() if "is for the last stage" in one.because]
