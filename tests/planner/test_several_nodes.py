"""From two nodes to 512 GPUs: the layouts that are found, and what holds for all of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, with_key

from recipec.layout import Machines
from recipec.planner import StagePlan
from recipec.planner.document import plan_document
from recipec.planner.search.bounds import TIE
from recipec.planner.search.layouts import meshes
from recipec.units import duration, usd


def on_nodes(model: str, nodes: int, **changes: Any) -> Tables:
    """Full fine-tuning on nodes of eight H100 with a network of 3,200 Gbit/s."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes, "network_gbps": 3200}
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "hardware", hardware)
    recipe = with_key(recipe, "train", {"adaptation": "full"})
    for key, value in changes.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


def planned(folder: Path, recipe: Tables) -> StagePlan:
    found = compiled(folder, recipe, only_plan=True)
    assert found.plan, [diagnostic.title for diagnostic in found.diagnostics]
    return found.plan.stages[-1]


def test_a_70b_model_is_sharded_over_four_nodes(tmp_path: Path) -> None:
    stage = planned(tmp_path, on_nodes("meta-llama/Llama-3.1-70B", 4, data__max_length=4096))
    mesh = stage.layout.mesh
    assert (mesh.world_size, mesh.shard, mesh.ranks_per_layer) == (32, 32, 1)
    assert stage.memory.peak_allocated_bytes <= stage.usable_bytes


def large(packing: bool, **changes: Any) -> Tables:
    """Full fine-tuning of 405B parameters on 512 GPUs; long rows where they are not packed."""
    train = {"train__global_batch_size": 2048, "train__packing": packing, "train__attention": "sdpa"}
    train |= {"train__optimizer": "adamw"}  # states in 8 bits would fit
    length = 8192 if packing else 16384
    rows = {"data__max_length": length, "data__examples": 100_000}
    return on_nodes("meta-llama/Llama-3.1-405B", 64, **rows, **train, **changes)


def test_a_405b_model_shares_layers_between_ranks(tmp_path: Path) -> None:
    """Neither shards nor copies of shards are enough on the GPUs alone: the plan says which ranks share a layer."""
    stage = planned(tmp_path, large(packing=False, train__activation_offload=False))
    mesh = stage.layout.mesh
    assert mesh.world_size == 512 and mesh.tensor * mesh.context > 1 and mesh.shard >= 8
    assert stage.memory.peak_allocated_bytes <= stage.usable_bytes


@pytest.mark.parametrize("packing", [True, False])
def test_activations_wait_in_cpu_memory_where_sharing_layers_is_not_faster(tmp_path: Path, packing: bool) -> None:
    """A plan that can be built; shared layers cannot."""
    recipe = large(packing, hardware__host_memory_gib=2048)
    stage = planned(tmp_path, recipe)
    assert stage.layout.activation_offload and stage.layout.mesh.ranks_per_layer == 1
    (shared,) = [other for other in stage.rejected if other.layout.mesh.ranks_per_layer > 1]
    assert shared.seconds is not None and shared.seconds * (1 + TIE) > stage.seconds
    assert good(tmp_path, recipe).files


def test_a_way_out_can_be_built(tmp_path: Path) -> None:
    """The 70B model with rows of 131,072 tokens would fit where ranks share layers, which is no way out."""
    recipe = on_nodes("meta-llama/Llama-3.1-70B", 1, data__max_length=131072)
    (refused,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402"]
    assert refused.help and not any("parallel" in line for line in refused.help)


def test_the_way_out_of_a_plan_that_does_not_fit_is_built(tmp_path: Path) -> None:
    recipe = large(packing=False, train__activation_offload=False, hardware__nodes=16, hardware__host_memory_gib=4096)
    (refused,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402"]
    assert refused.help[0].startswith("remove `train.activation_offload`: full fine-tuning, zero3 with CPU offload")
    recipe = with_key(recipe, "train.activation_offload", None)
    assert good(tmp_path, recipe).files
    assert planned(tmp_path, recipe).layout.activation_offload


def test_small_models_copy_their_shards_or_themselves(tmp_path: Path) -> None:
    """A slow network makes what crosses it cost: a model that fits is not sharded over all nodes."""
    slow = on_nodes("meta-llama/Llama-3.1-8B", 8, hardware__network_gbps=100, train__global_batch_size=512)
    stage = planned(tmp_path, slow)
    assert stage.layout.mesh.replicate > 1 and stage.layout.strategy == "hsdp"
    fsdp = next(other for other in stage.rejected if other.layout.strategy == "fsdp")
    assert fsdp.seconds is not None and fsdp.seconds > stage.seconds


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B"])
def test_more_nodes_are_never_slower(tmp_path: Path, model: str) -> None:
    times = [planned(tmp_path, on_nodes(model, nodes, train__global_batch_size=256)).seconds for nodes in (2, 4, 8, 32)]
    assert all(more <= fewer * (1 + TIE) for fewer, more in itertools.pairwise(times))


def test_every_mesh_uses_whole_parts_and_feeds_every_copy() -> None:
    found = list(meshes(Machines(4, 8), 64, {}, shared=True))
    assert {mesh.world_size for _, mesh in found} == {32, 16, 8, 4, 2, 1}
    assert all(mesh.data_parallel <= 64 for _, mesh in found)
    assert all(mesh.tensor <= 8 and mesh.shard % mesh.expert == 0 for _, mesh in found)
    hybrid = {(mesh.replicate, mesh.shard) for row, mesh in found if row.groups and mesh.ranks_per_layer == 1}
    assert hybrid == {(2, 16), (4, 8), (2, 8)}


@pytest.mark.parametrize(
    ("key", "value", "id"),
    [
        ("train.tensor_parallel", 4, "BAD-027"),
        ("train.tensor_parallel", 3, "BAD-019"),
        ("train.expert_parallel", 2, "BAD-026"),
        ("train.context_parallel", 2, "BAD-022"),
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, key: str, value: int, id: str) -> None:
    packing = id == "BAD-022"
    recipe = with_key(on_nodes("meta-llama/Llama-3.1-8B", 1, train__packing=packing), key, value)
    recipe = with_key(recipe, "train.strategy", "zero3" if id == "BAD-027" else "fsdp")
    if value == 3:
        recipe = with_key(recipe, "hardware.gpus_per_node", 6)
    (problem,) = [d for d in compiled(tmp_path, recipe, only_plan=True).diagnostics if d.code == "E0405"]
    assert any(f"({id}: " in note for note in problem.notes)


def test_spread_layers_are_planned_and_not_built(tmp_path: Path) -> None:
    recipe = on_nodes("meta-llama/Llama-3.1-8B", 1, train__tensor_parallel=2)
    assert planned(tmp_path, recipe).layout.mesh.tensor == 2
    assert [d.code for d in compiled(tmp_path, recipe).diagnostics if d.code.startswith("E")] == ["E0410"]


def test_a_faster_layout_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    """Eight long sequences feed 8 of 64 GPUs, unless ranks share them."""
    rows = {"data__max_length": 16384, "data__tokens_per_example": 3000, "train__packing": False}
    stage = planned(tmp_path, on_nodes("meta-llama/Llama-3.1-8B", 8, train__global_batch_size=8, **rows))
    assert stage.layout.mesh.world_size == 8
    (faster,) = [other for other in stage.rejected if other.layout.mesh.ranks_per_layer > 1]
    assert faster.seconds is not None and faster.seconds * (1 + TIE) < stage.seconds
    assert faster.reason == f"fits, {stage.seconds / faster.seconds:.1f}x faster, and cannot be built yet"


def test_nodes_behind_a_slow_network_are_left_idle_and_why(tmp_path: Path) -> None:
    stage = planned(tmp_path, on_nodes("meta-llama/Llama-3.1-8B", 2, hardware__network_gbps=10))
    assert stage.layout.mesh.world_size == 8 and stage.layout.global_batch >= 16
    because = "no layout that fits on more of the 16 GPUs is clearly faster; hsdp on 16 takes "
    assert stage.decisions["world_size"].because.startswith(because)


def test_the_bundle_of_several_nodes(tmp_path: Path) -> None:
    recipe = on_nodes("meta-llama/Llama-3.1-8B", 4, train__strategy="hsdp", train__global_batch_size=512)
    files = {file.path: file.text for file in good(tmp_path, recipe).files}
    config, script = files["configs/fsdp.yaml"], files["launch/nodes.sh"]
    assert "num_machines: 4" in config and "num_processes: 32" in config
    assert "parallelism_config_dp_shard_size" in config and "planned NNODES 4 sft" in script
    assert "planned NPROC_PER_NODE 8 sft" in script


def test_one_node_keeps_its_script(tmp_path: Path) -> None:
    files = {file.path: file.text for file in good(tmp_path, on_nodes("meta-llama/Llama-3.1-8B", 1)).files}
    assert "NODE_RANK:?" not in files["launch/local.sh"] and "parallelism_config" not in files["configs/fsdp.yaml"]


def test_random_weights_that_every_rank_makes_need_their_cpu_memory(tmp_path: Path) -> None:
    """Eight ranks of FSDP would each make all 405B parameters in fp32; ZeRO-3 makes them layer by layer."""
    recipe = on_nodes("meta-llama/Llama-3.1-405B", 64, hardware__host_memory_gib=2048, data__max_length=4096)
    recipe = with_key(with_key(recipe, "goal.task", "pretrain"), "data", {"train": "manual.txt", "examples": 10**9})
    recipe = with_key(with_key(recipe, "data.tokens_per_example", 2000), "data.max_length", 4096)
    stage = planned(tmp_path, with_key(recipe, "train", {}))
    assert stage.layout.strategy == "zero3"
    fsdp = next(other for other in stage.rejected if other.family.endswith(", fsdp"))
    assert fsdp.reason.startswith("needs 12,119 GiB of host memory per node, and 1,946 GiB of a node's are usable")
    assert fsdp.reason.endswith("(recipec leaves 5% to the system)")


def test_a_slow_rate_is_no_rate_of_zero(tmp_path: Path) -> None:
    """A 405B model behind a slow network makes less than a token a second."""
    long = {"data__max_length": 16384, "hardware__network_gbps": 100, "train__packing": False}
    long |= {"hardware__host_memory_gib": 16_384}  # every process of FSDP reads the weights
    plan = compiled(tmp_path, on_nodes("meta-llama/Llama-3.1-405B", 16, **long), only_plan=True).plan
    assert plan
    told = plan_document(plan)["stages"][0]["time"]["tokens_per_second_per_gpu"]
    assert 0 < told < 20 and told == pytest.approx(plan.stages[0].time.tokens_per_second_per_gpu, rel=0.05)


@pytest.mark.parametrize(("nodes", "grouped"), [(1, False), (2, True)])
def test_groups_that_copy_each_other_are_tried_from_two_nodes_on(tmp_path: Path, nodes: int, grouped: bool) -> None:
    plan = compiled(tmp_path, with_key(BASES["full-fsdp"], "hardware.nodes", nodes), only_plan=True).plan
    assert plan
    (stage,) = plan.stages
    tried = {stage.layout.strategy, *(other.layout.strategy for other in stage.rejected)}
    assert ("hsdp" in tried) is grouped
    assert {"fsdp", "zero2", "zero3"} <= tried


def test_fewer_nodes_that_are_as_fast_are_named_beside_one(tmp_path: Path) -> None:
    """One node is cheapest, and takes almost five times as long as eight that cost a quarter of all 32."""
    recipe = with_key(BASES["full-fsdp"], "model.name", "Qwen/Qwen3-8B")
    hardware = {"gpu": "l40s", "gpus_per_node": 8, "nodes": 32, "network_gbps": 10}
    recipe = with_key(with_key(with_key(recipe, "train", {}), "data.examples", 3_000_000), "hardware", hardware)
    found = compiled(tmp_path, recipe, only_plan=True)
    (warned,) = [each for each in found.diagnostics if each.code == "W0519"]
    fewer, alone = warned.help[:2]
    assert alone.startswith("train on one node: ")
    then = compiled(tmp_path, with_key(recipe, "hardware.nodes", 8), only_plan=True).plan
    assert found.plan and then and then.cost_usd and found.plan.cost_usd
    assert fewer.startswith("train on 8 nodes: set `hardware.nodes = 8`: ")
    assert then.seconds <= (1 + TIE) * found.plan.seconds and then.cost_usd < 0.5 * found.plan.cost_usd
    assert duration(then.seconds) in fewer and usd(then.cost_usd) in fewer
