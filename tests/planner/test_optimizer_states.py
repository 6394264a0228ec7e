"""8-bit optimizer states are tried where those of AdamW do not fit, before offload and before a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner.plan import StagePlan
from recipec.rules import RULES

Tables = dict

FULL_8B: Tables = {
    "recipe": {"name": "states"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 500},
    "hardware": {"gpu": "h200"},
    "train": {"adaptation": "full"},
}


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[0]


def test_full_fine_tuning_on_one_card_keeps_its_states_in_8_bits(tmp_path: Path) -> None:
    stage = planned(tmp_path, FULL_8B)
    assert (stage.layout.optimizer, stage.layout.on_device) == ("adamw-8bit", True)
    assert "fp32 states of AdamW do not fit on the GPUs: 13" in stage.decisions["optimizer"].because
    (row,) = (row for row in stage.rejected if row.family == "full fine-tuning, single with adamw")
    assert "too much" in row.reason


def test_states_that_fit_beside_activations_in_host_memory_are_told(tmp_path: Path) -> None:
    """Who approves 8-bit states sees what the fp32 ones would take, as a recipe that asks for them plans it."""
    large = with_key(with_key(FULL_8B, "model.name", "meta-llama/Llama-3.1-70B"), "data.max_length", 16384)
    large = with_key(large, "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 4})
    large = with_key(large, "data.tokens_per_example", 8_000)
    stage = planned(tmp_path, large)
    assert stage.layout.optimizer == "adamw-8bit"
    name = "full fine-tuning, fsdp with activations in host memory with adamw"
    (row,) = (row for row in stage.rejected if row.family == name)
    asked = planned(tmp_path, with_key(large, "train.optimizer", "adamw"))
    assert asked.layout.activation_offload and row.peak_allocated_bytes == asked.memory.peak_allocated_bytes
    assert row.seconds == pytest.approx(asked.seconds, rel=0.02) and row.is_open
    assert "count as equal" in row.reason
    because = stage.decisions["optimizer"].because
    assert f"with activations in host memory they fit in {asked.memory.peak_allocated_bytes / 2**30:.1f} GiB" in because


def test_fp32_states_are_kept_where_activations_in_host_memory_also_make_training_faster(tmp_path: Path) -> None:
    """Short rows beside a few long ones: a larger micro batch has room once activations leave the GPUs."""
    large = with_key(with_key(FULL_8B, "model.name", "meta-llama/Llama-3.1-70B"), "data.max_length", 16384)
    large = with_key(large, "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 4})
    large = with_key(large, "train.global_batch_size", 64)
    small = planned(tmp_path, with_key(large, "train.activation_offload", False))
    stage = planned(tmp_path, large)
    assert (stage.layout.optimizer, stage.layout.activation_offload) == ("adamw", True)
    assert small.layout.optimizer == "adamw-8bit" and stage.seconds * 1.25 < small.seconds


def test_where_adamw_fits_it_is_kept(tmp_path: Path) -> None:
    assert planned(tmp_path, with_key(FULL_8B, "hardware.gpu", "b200")).layout.optimizer == "adamw"


def test_an_optimizer_that_the_recipe_names_is_not_replaced(tmp_path: Path) -> None:
    (error,) = compiled(tmp_path, with_key(FULL_8B, "train.optimizer", "adamw")).diagnostics
    assert error.code == "E0402"
    assert any(line.startswith("remove `train.optimizer`") and "adamw-8bit" in line for line in error.help)


@pytest.mark.parametrize("gpu", ["h100", "a100-80gb"])
def test_a_large_model_is_offered_more_nodes(tmp_path: Path, gpu: str) -> None:
    large = with_key(with_key(FULL_8B, "model.name", "meta-llama/Llama-3.1-70B"), "hardware.gpu", gpu)
    large = with_key(large, "hardware.gpus_per_node", 8)
    (error,) = compiled(tmp_path, large).diagnostics
    (nodes,) = (line for line in error.help if "hardware.nodes" in line)
    count = int(nodes.partition("hardware.nodes = ")[2].partition("`")[0])
    assert planned(tmp_path, with_key(large, "hardware.nodes", count)).layout.can_be_built


def test_weights_stay_on_the_gpus_where_only_the_optimizer_must_leave_them(tmp_path: Path) -> None:
    """ZeRO-3 with both on the host is as fast within what the estimates can tell, and takes more host memory."""
    recipe = with_key(BASES["zero3-offload"], "train.offload", None)
    compilation = compiled(tmp_path, recipe)
    stage = compilation.plan.stages[0]
    assert (stage.layout.offload, stage.memory.terms["weights"] > 0) == ("optimizer", True)
    config = next(file.text for file in compilation.files if file.path == "configs/deepspeed.json")
    assert "offload_optimizer" in config and "offload_param" not in config
    everything = compiled(tmp_path, BASES["zero3-offload"]).plan.stages[0]
    assert "weights" not in everything.memory.terms
    assert stage.needs.host.needed_bytes < everything.needs.host.needed_bytes


def test_stated_host_memory_is_not_used_to_the_last_gib(tmp_path: Path) -> None:
    long = with_key(BASES["zero3-offload"], "data.max_length", 2048)
    needed = compiled(tmp_path, long).plan.stages[0].needs.host.needed_bytes / 2**30
    enough, short = (
        compiled(tmp_path, with_key(long, "hardware.host_memory_gib", round(needed / share, 1)))
        for share in (0.94, 0.96)
    )
    assert [found.plan.stages[0].layout.mesh.world_size for found in (enough, short)] == [4, 2]


@pytest.mark.parametrize(("gpu", "model"), [("h100", "Qwen/Qwen3-8B"), ("h200", "Qwen/Qwen3-14B")])
def test_no_call_of_an_8_bit_optimizer_gets_more_weights_than_its_kernels_count(
    tmp_path: Path, gpu: str, model: str
) -> None:
    """A rank has half of 8 billion weights, which ZeRO-2 would hand over as one vector."""
    two = with_key(with_key(FULL_8B, "hardware", {"gpu": gpu, "gpus_per_node": 2}), "model.name", model)
    stage = planned(tmp_path, two)
    assert (stage.layout.optimizer, stage.layout.strategy) == ("adamw-8bit", "zero3")


def test_the_page_says_when_states_that_fit_give_way(tmp_path: Path) -> None:
    """Over a slow network fp32 states fit and mostly wait, and 8-bit ones train clearly faster."""
    slow = {"gpu": "h100", "nodes": 2, "network_gbps": 100}
    pairs = with_key(with_key(BASES["dpo-full"], "model.name", "meta-llama/Llama-2-7b-hf"), "hardware", slow)
    pairs = with_key(pairs, "train", {"adaptation": "full"})
    stage = planned(tmp_path, with_key(pairs, "data.max_length", 1_024))
    decided = stage.decisions["optimizer"]
    assert decided.value == "adamw-8bit" and "of a step waits for other GPUs" in decided.because
    page = " ".join((RULES["OPT-002"].function.__doc__ or "").split())
    assert "fp32 moments fit, but more than half of a step then waits for other GPUs" in page
