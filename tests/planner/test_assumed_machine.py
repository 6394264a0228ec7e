"""What a recipe does not state of its machine: taken from the GPU's class, said, and warned of where it decides."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, good, with_key
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.catalog.measured import measured_from
from recipec.cli.plan import plan_text
from recipec.planner.document import plan_document
from recipec.planner.plan import StagePlan
from recipec.planner.search.candidates import gpu_gib, usable_bytes
from recipec.units import GIB

Tables = dict


def recipe(model: str, gpu: str, per_node: int = 1, **keys: object) -> Tables:
    tables = {
        "recipe": {"name": "machine"},
        "goal": {"task": "instruct"},
        "model": {"name": model},
        "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 500},
        "hardware": {"gpu": gpu, "gpus_per_node": per_node},
    }
    for key, value in keys.items():
        tables = with_key(tables, key.replace("__", "."), value)
    return tables


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_check=True).plan
    assert plan is not None
    return plan.stages[0]


def warnings(folder: Path, tables: Tables) -> list:
    return [found for found in compiled(folder, tables).diagnostics if found.code == "W0523"]


@pytest.mark.parametrize(("gpu", "per_node", "gbps"), [("h100", 8, 1600), ("h200", 8, 3200), ("a10g", 1, 5)])
def test_the_network_is_that_of_the_class(tmp_path: Path, gpu: str, per_node: int, gbps: float) -> None:
    stage = planned(tmp_path, recipe("Qwen/Qwen3-0.6B", gpu, per_node, hardware__nodes=2))
    assert stage.value("network_gbps") == gbps
    assert "machine types" in stage.decisions["network_gbps"].because


def test_an_unknown_class_is_asked_for_its_network(tmp_path: Path) -> None:
    tables = recipe("Qwen/Qwen3-0.6B", "h800", 8, hardware__nodes=2)
    assert codes(compiled(tmp_path, tables)) == ["E0201"]
    assert "E0201" not in codes(compiled(tmp_path, with_key(tables, "hardware.network_gbps", 400)))


def test_a_large_model_is_not_put_into_memory_that_nobody_stated(tmp_path: Path) -> None:
    tables = recipe("meta-llama/Llama-3.1-70B", "rtx-3090", 2)
    (error,) = compiled(tmp_path, tables).diagnostics
    assert error.code == "E0402"
    assert any(
        way.startswith("set `hardware.host_memory_gib = 359` if a node has it: LoRA, zero3 with CPU")
        for way in error.help
    )
    stated = with_key(tables, "hardware.host_memory_gib", 359)
    assert planned(tmp_path, stated).layout.offloads
    assert "E0402" in codes(compiled(tmp_path, with_key(tables, "hardware.host_memory_gib", 357)))


def test_offload_into_assumed_memory_is_warned_of_and_told(tmp_path: Path) -> None:
    tables = recipe("Qwen/Qwen3-4B", "t4", 4, train__adaptation="full", train__strategy="zero3", train__offload="cpu")
    (warning,) = warnings(tmp_path, tables)
    assert "192 GiB are assumed" in warning.labels[0].message
    text = plan_text(plan_document(good(tmp_path, tables).plan))
    assert "  assumes  192 GiB of host memory in a node" in text and "24 CPU cores in a node" in text
    stated = with_key(with_key(tables, "hardware.host_memory_gib", 192), "hardware.cpu_cores", 24)
    assert not warnings(tmp_path, stated)
    assert "assumes" not in plan_text(plan_document(good(tmp_path, stated).plan))


def test_offload_that_needs_a_part_of_the_assumed_memory_is_told_without_a_warning(tmp_path: Path) -> None:
    tables = recipe("Qwen/Qwen3-0.6B", "t4", 4, train__adaptation="full", train__strategy="zero2", train__offload="cpu")
    assert not warnings(tmp_path, tables)
    text = plan_text(plan_document(good(tmp_path, tables).plan))
    assert "  assumes  192 GiB of host memory in a node" in text


def test_a_network_that_decides_is_warned_of_with_what_would_change(tmp_path: Path) -> None:
    tables = recipe("meta-llama/Llama-3.1-70B", "h100", 8, hardware__nodes=8, train__adaptation="full")
    tables = with_key(tables, "train.global_batch_size", 64)
    (warning,) = warnings(tmp_path, tables)
    assert warning.notes == ("with 400 Gbit/s: fsdp on 32 GPUs",)
    slower = planned(tmp_path, with_key(tables, "hardware.network_gbps", 400))
    assert (slower.layout.strategy, slower.layout.mesh.world_size) == ("fsdp", 32)
    assert not warnings(tmp_path, with_key(tables, "hardware.network_gbps", 1600))


def test_two_home_computers_are_asked_for_their_network(tmp_path: Path) -> None:
    tables = recipe("meta-llama/Llama-3.1-8B", "rtx-4090", 2, hardware__nodes=2)
    assert len(warnings(tmp_path, tables)) == 1


def test_a_network_that_decides_nothing_is_not_warned_of(tmp_path: Path) -> None:
    assert not warnings(tmp_path, recipe("Qwen/Qwen3-0.6B", "h200", 8, hardware__nodes=2, train__global_batch_size=128))


@pytest.mark.parametrize(("cores", "more"), [(1, 7.0), (4, 1.75), (8, 1.0)])
def test_offload_is_as_fast_as_the_cores(tmp_path: Path, cores: int, more: float) -> None:
    tables = with_key(BASES["zero3-offload"], "hardware.cpu_cores", 64)
    least = planned(tmp_path, tables)
    found = planned(tmp_path, with_key(tables, "hardware.cpu_cores", cores))
    adam = 0.5e-9 * least.value("trainable_params")
    assert found.time.terms["offload"] - least.time.terms["offload"] == pytest.approx((more - 1) * adam, rel=0.01)


def test_random_weights_that_crowd_assumed_memory_are_warned_of(tmp_path: Path) -> None:
    """Each rank holds its own before they are sharded: 26 of 48 GiB. Neither cores nor more memory matter then."""
    tables = with_key(with_key(BASES["pretrain"], "hardware.gpu", "t4"), "hardware.gpus_per_node", 3)
    (warning,) = warnings(tmp_path, tables)
    assert warning.labels[0].message == "48 GiB are assumed, and 26 GiB are needed"
    assert warning.help == ("set `hardware.host_memory_gib` to what a node has",)
    assert not warnings(tmp_path, with_key(tables, "hardware.host_memory_gib", 48))
    assert not warnings(tmp_path, BASES["pretrain"])  # 18 of 370 GiB


def test_the_warning_asks_for_what_is_not_stated(tmp_path: Path) -> None:
    tables = recipe("Qwen/Qwen3-4B", "t4", 4, train__adaptation="full", train__strategy="zero3", train__offload="cpu")
    (warning,) = warnings(tmp_path, tables)
    assert warning.help == ("set `hardware.host_memory_gib` and `hardware.cpu_cores` to what a node has",)
    (warning,) = warnings(tmp_path, with_key(tables, "hardware.cpu_cores", 24))
    assert warning.help == ("set `hardware.host_memory_gib` to what a node has",)


def test_host_memory_that_was_measured_is_not_asked_for(tmp_path: Path) -> None:
    tables = with_key(recipe("meta-llama/Llama-3.1-70B", "rtx-3090", 2), "hardware.measured", "node.toml")
    (tmp_path / "node.toml").write_text(
        f'format = 1\ndate = {date.today()}\n[machine]\ndevice = "cuda"\ngpus = ["RTX 3090", "RTX 3090"]\ncpu = "x"\n'
        'torch = "2.13.0"\ntransformers = "5.23.0"\ndriver = ""\ncores = 8\nhost_memory_gib = 64.0\n'
    )
    (error,) = [found for found in compiled(tmp_path, tables).diagnostics if found.code == "E0402"]
    assert not any("hardware.host_memory_gib" in line for line in error.help)


def test_the_memory_that_a_gpu_needs_has_its_measured_context() -> None:
    known = gpu("h100")
    assert known is not None
    machine = {"device": "cuda", "host_memory_gib": 64.0, "cores": 8}
    memory = {"total_gib": 79.0, "free_gib": 77.0}
    found = replace(
        known, measured=measured_from("x", {"date": date.today(), "machine": machine, "gpu_memory": memory})
    )
    needed = gpu_gib(found, 40 * GIB, 2)
    assert usable_bytes(replace(found, memory_gib=needed), 2) == pytest.approx(40 * GIB, rel=1e-6)
    assert needed == pytest.approx(gpu_gib(known, 40 * GIB, 2) + 2.0 - 0.55, abs=0.01)


def test_states_stay_on_the_device_where_that_fits(tmp_path: Path) -> None:
    stage = planned(tmp_path, recipe("Qwen/Qwen3-14B", "rtx-4090", 2, hardware__host_memory_gib=512))
    assert stage.layout.on_device


@pytest.mark.parametrize("nodes", [2, 4])
def test_another_network_is_told_as_the_recipe_with_it_is_planned(tmp_path: Path, nodes: int) -> None:
    """With its global batch: a larger one comes before idle GPUs."""
    tables = recipe("Qwen/Qwen3-8B", "h100", 8, hardware__nodes=nodes, goal__priority="quality")
    tables = with_key(tables, "data", {**tables["data"], "examples": 50_000, "max_length": 4096})
    told = {note.split()[1]: note for warning in warnings(tmp_path, tables) for note in warning.notes}
    now = planned(tmp_path, tables)
    for rate in ("400", "6,400"):
        then = planned(tmp_path, with_key(tables, "hardware.network_gbps", int(rate.replace(",", ""))))
        how = f"{then.layout.strategy} on {then.layout.mesh.world_size} GPUs"
        batch = f" with a global batch of {then.layout.global_batch} instead of {now.layout.global_batch}"
        same = how == f"{now.layout.strategy} on {now.layout.mesh.world_size} GPUs"
        raised = batch * (then.layout.global_batch != now.layout.global_batch)
        assert told.get(rate, "") == ("" if same else f"with {rate} Gbit/s: {how}{raised}")
    assert told


@pytest.mark.parametrize(
    ("base", "told"), [("zero3-offload", False), ("unknown slot", True), ("without offload", False)]
)
def test_a_slot_that_is_not_known_is_told_where_tensors_cross_it(tmp_path: Path, base: str, *, told: bool) -> None:
    recipe = BASES["lora-single" if base == "without offload" else "zero3-offload"]
    if base != "zero3-offload":
        recipe = with_key(with_key(recipe, "hardware.gpu", None), "hardware.vram_gib", 80)
    found = compiled(tmp_path, recipe, only_plan=True)
    assert found.plan
    assert ("depends on a slot that is not known" in str(found.diagnostics)) is told
