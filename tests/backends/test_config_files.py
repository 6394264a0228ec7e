"""The configuration files of each strategy: their keys, their numbers, and nothing left to "auto"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from compiling import BASES, good, shape, texts, with_key, without

from recipec.catalog.models import model
from recipec.estimate.codepath import code_path
from recipec.estimate.sharding import gathered_by_zero3
from recipec.estimate.sizes import sizes
from recipec.estimate.workload import Workload

GPUS4 = with_key(BASES["lora-single"], "hardware.gpus_per_node", 4)
HEAD = {"compute_environment", "distributed_type", "num_machines", "num_processes", "machine_rank"}
FSDP = {
    *("fsdp_version", "fsdp_reshard_after_forward", "fsdp_auto_wrap_policy", "fsdp_transformer_layer_cls_to_wrap"),
    *("fsdp_cpu_ram_efficient_loading", "fsdp_state_dict_type"),
}
ZERO = {"stage", "overlap_comm", "contiguous_gradients", "reduce_bucket_size"}
ZERO3 = {
    *("stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"),
    "stage3_gather_16bit_weights_on_model_save",
}
# Strategy -> file -> its keys at the top.
FILES: dict[str, dict[str, set[str]]] = {
    "ddp": {"configs/accelerate.yaml": HEAD | {"mixed_precision"}},
    "fsdp": {"configs/fsdp.yaml": HEAD | {"mixed_precision", "fsdp_config"}},
    **{
        zero: {
            "configs/accelerate.yaml": HEAD | {"deepspeed_config"},
            "configs/deepspeed.json": {
                *("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"),
                *("bf16", "zero_optimization", "steps_per_print"),
            },
        }
        for zero in ("zero2", "zero3")
    },
}


def _configs(folder: Path, strategy: str, **keys: Any) -> dict[str, Any]:
    recipe = with_key(GPUS4, "train.strategy", strategy)
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    bundle = texts(good(folder, recipe))
    return {path: _load(path, text) for path, text in bundle.items() if path.startswith("configs/")}


def _load(path: str, text: str) -> Any:
    return json.loads(text) if path.endswith(".json") else yaml.safe_load(text)


@pytest.mark.parametrize("strategy", FILES)
def test_a_strategy_has_its_files_with_their_keys_and_no_others(tmp_path: Path, strategy: str) -> None:
    found = _configs(tmp_path, strategy)
    assert {path: set(config) for path, config in found.items()} == FILES[strategy]
    assert '"auto"' not in json.dumps(found)
    assert "train_batch_size" not in found.get("configs/deepspeed.json", {})


def test_one_device_needs_no_configuration() -> None:
    assert not [path for path in texts(shape("lora-single")) if path.startswith("configs/")]


def test_fsdp_wraps_the_models_own_layer(tmp_path: Path) -> None:
    config = _configs(tmp_path, "fsdp", train__activation_checkpointing=True)["configs/fsdp.yaml"]["fsdp_config"]
    assert set(config) == FSDP
    assert config["fsdp_version"] == 2
    assert config["fsdp_transformer_layer_cls_to_wrap"] == "Qwen3DecoderLayer"


@pytest.mark.parametrize(("strategy", "keys"), [("zero2", ZERO), ("zero3", ZERO | ZERO3)])
def test_zero_states_its_buckets(tmp_path: Path, strategy: str, keys: set[str]) -> None:
    zero = _configs(tmp_path, strategy, train__offload="none")["configs/deepspeed.json"]["zero_optimization"]
    assert set(zero) == keys
    assert zero["stage"] == int(strategy[-1])
    assert zero["reduce_bucket_size"] == 4096**2  # hidden size of Qwen3-8B


def test_what_zero3_prefetches_is_in_the_memory_law(tmp_path: Path) -> None:
    """The law counts the elements that the emitted file asks for, beside a layer and the embedding."""
    asked = _configs(tmp_path, "zero3", train__offload="none")["configs/deepspeed.json"]["zero_optimization"]
    shape, layout = model("Qwen/Qwen3-8B").architecture, good(tmp_path, GPUS4).plan.stages[0].layout
    count, path = sizes(shape, None, to_vocabulary=True), code_path(layout, Workload())
    with_bucket, without_it = (gathered_by_zero3(hidden, 0, count, path) for hidden in (shape.hidden_size, 0))
    assert with_bucket - without_it == pytest.approx(asked["stage3_prefetch_bucket_size"] * path.compute)


def test_zero_offloads_what_it_shards(tmp_path: Path) -> None:
    zero2, zero3 = (
        _configs(tmp_path, name, train__offload="cpu")["configs/deepspeed.json"]["zero_optimization"]
        for name in ("zero2", "zero3")
    )
    assert {key for key in zero2 if key.startswith("offload")} == {"offload_optimizer"}
    assert {key for key in zero3 if key.startswith("offload")} == {"offload_optimizer", "offload_param"}


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_deepspeed_and_the_trainer_agree(tmp_path: Path, strategy: str) -> None:
    found = _configs(tmp_path, strategy, train__micro_batch_size=2, train__max_grad_norm=0.5)["configs/deepspeed.json"]
    assert found["train_micro_batch_size_per_gpu"] == 2
    assert found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] * 4 == 32
    assert found["gradient_clipping"] == 0.5


@pytest.mark.parametrize(("precision", "mixed"), [("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "no")])
def test_precision_is_the_same_everywhere(tmp_path: Path, precision: str, mixed: str) -> None:
    assert _configs(tmp_path, "ddp", train__precision=precision)["configs/accelerate.yaml"]["mixed_precision"] == mixed
    deepspeed = _configs(tmp_path, "zero2", train__precision=precision)["configs/deepspeed.json"]
    assert {key for key in deepspeed if key in ("bf16", "fp16")} == {precision} - {"fp32"}


def test_experts_are_leaves_under_zero3(tmp_path: Path) -> None:
    recipe = with_key(BASES["zero3-offload"], "model.name", "Qwen/Qwen3-30B-A3B")
    recipe = without(recipe, "train.offload", "hardware.host_memory_gib")
    recipe = with_key(with_key(recipe, "hardware", {"gpu": "h200", "gpus_per_node": 8}), "train.adaptation", "lora")
    recipe = with_key(recipe, "train.lora", {"dropout": 0.0})
    config = json.loads(texts(good(tmp_path, recipe))["configs/deepspeed.json"])
    assert config["zero_optimization"]["leaf_module"] == {"classes": ["Qwen3MoeSparseMoeBlock"]}


@pytest.mark.parametrize(("nodes", "launcher"), [(1, None), (2, "standard")])
def test_every_node_starts_its_own_processes_of_deepspeed(tmp_path: Path, nodes: int, launcher: str | None) -> None:
    """accelerate's default wants pdsh and a hostfile; without the file each node would train on its own."""
    recipe = with_key(with_key(BASES["full-fsdp"], "hardware.nodes", nodes), "train.strategy", "zero3")
    recipe = with_key(recipe, "hardware.network_gbps", 3200)
    config = yaml.safe_load(texts(good(tmp_path, recipe))["configs/accelerate.yaml"])
    assert config["num_machines"] == nodes
    assert config["deepspeed_config"].get("deepspeed_multinode_launcher") == launcher


@pytest.mark.parametrize(
    ("base", "named"), [("lora-ddp", "peft"), ("zero3-offload", "deepspeed"), ("full-fsdp", "trl")]
)
def test_the_registry_names_what_is_installed(base: str, named: str) -> None:
    files = texts(shape(base))
    used = json.loads(files["registry/entry.json"])["training_metadata"]["framework"].split(" + ")
    assert any(each.startswith(f"{named} ") for each in used)
    assert {each.replace(" ", "==") for each in used} <= {
        line.split(" ")[0] for line in files["requirements.txt"].splitlines()
    }


@pytest.mark.parametrize(("name", "handed_out"), [("zai-org/GLM-4.5-Air", False), ("Qwen/Qwen3-30B-A3B", True)])
def test_rank_0_hands_out_no_checkpoint_that_has_buffers(tmp_path: Path, name: str, handed_out: bool) -> None:
    """accelerate 1.15 takes them for sharded parameters and stops: Tensor has no attribute device_mesh."""
    found = _configs(tmp_path, "fsdp", model__name=name, hardware__gpu="b200")["configs/fsdp.yaml"]
    assert found["fsdp_config"]["fsdp_cpu_ram_efficient_loading"] is handed_out


@pytest.mark.parametrize(("base", "loads"), [("full-fsdp", True), ("distill", False)])
def test_the_configuration_says_which_ranks_read_the_weights(tmp_path: Path, base: str, loads: bool) -> None:
    """train.py loads the model itself where it can; beside a teacher it leaves that to the trainer."""
    recipe = with_key(with_key(BASES[base], "train.strategy", "fsdp"), "hardware", {"gpu": "h100", "gpus_per_node": 8})
    bundle = texts(good(tmp_path, recipe))
    assert ("def load_model(" in bundle["train.py"]) is loads
    said = "train.py reads them on one rank of a node" if loads else "all ranks map the files, which a node holds once"
    assert f"rank 0 hands its weights out; {said}" in bundle["configs/fsdp.yaml"]
