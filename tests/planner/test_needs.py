"""What a plan asks of the machine around the GPUs: in the document, for people, and as a warning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key

from recipec.catalog.models import model
from recipec.cli.plan import plan_text
from recipec.estimate.experts import published_bytes
from recipec.estimate.storage import GIB, PROCESS_BYTES
from recipec.planner.plan import StagePlan

QWEN_7B_BYTES = 2 * 7_615_616_512


def stages(folder: Path, name: str) -> list[dict]:
    return json.loads(good(folder, BASES[name]).plan_json)["stages"]


def test_disk_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    disk = stages(tmp_path, "lora-ddp")[0]["storage"]
    parts = ("checkpoints_bytes", "export_bytes", "dataset_cache_bytes", "hub_cache_bytes")
    assert disk["total_bytes"] == sum(disk[part] for part in parts)
    assert disk["hub_cache_bytes"] == QWEN_7B_BYTES
    assert disk["checkpoints_bytes"] == 4 * disk["checkpoint_bytes"], "three are kept and one is being written"
    assert disk["dataset_cache_bytes"] == pytest.approx(5_000 * 400 * (5.1 * 4.2 + 49)), "copies of text, tokens"


def test_a_model_of_random_weights_is_not_downloaded(tmp_path: Path) -> None:
    assert stages(tmp_path, "pretrain")[0]["storage"]["hub_cache_bytes"] == 0


@pytest.mark.parametrize(("keep", "on_disk"), [(3, 4), (4, 5), (9, 5)])  # of the five that are saved
def test_more_checkpoints_take_more_disk(tmp_path: Path, keep: int, on_disk: int) -> None:
    plan = good(tmp_path, with_key(BASES["lora-ddp"], "train.keep_checkpoints", keep)).plan
    assert plan
    storage = plan.stages[0].needs.storage
    assert storage.checkpoints_bytes == on_disk * storage.checkpoint_bytes


def test_a_stage_that_another_starts_from_also_writes_the_merged_model(tmp_path: Path) -> None:
    first, last = stages(tmp_path, "sft-dpo")
    adapter = last["storage"]["export_bytes"]
    assert first["storage"]["export_bytes"] == pytest.approx(QWEN_7B_BYTES + adapter, rel=1e-3)
    assert adapter < 0.02 * QWEN_7B_BYTES


def test_ranks_share_the_file_of_weights_in_16_bits(tmp_path: Path) -> None:
    ddp = stages(tmp_path, "lora-ddp")[0]["host"]
    assert ddp["needed_bytes"] == 2 * PROCESS_BYTES + QWEN_7B_BYTES
    offload = stages(tmp_path, "zero3-offload")[0]
    assert offload["host"]["needed_bytes"] > 4 * offload["memory"]["host_bytes"] > 100 * GIB


def test_cores_are_those_of_the_loader(tmp_path: Path) -> None:
    assert stages(tmp_path, "zero3-offload")[0]["host"]["loader_cores_per_gpu"] == 8
    assert stages(tmp_path, "lora-ddp")[0]["host"]["loader_cores_per_gpu"] == 4


def test_on_the_cpu_the_training_itself_is_in_cpu_memory(tmp_path: Path) -> None:
    stage = stages(tmp_path, "cpu")[0]
    assert stage["host"]["needed_bytes"] == stage["memory"]["peak_device_bytes"], "one number for one memory"


def test_the_memory_of_a_process_on_the_cpu_is_one_number_everywhere(tmp_path: Path) -> None:
    compilation = good(tmp_path, BASES["cpu"])
    document, bundle = json.loads(compilation.plan_json), texts(compilation)
    needed = f"{document['stages'][0]['host']['needed_bytes'] / GIB:.1f}"
    plan = plan_text(document)

    assert f"PREDICTED_PEAK_GIB = {needed}\n" in bundle["train.py"]
    assert f"- Memory: {needed} GiB (predicted); no GPU" in bundle["README.md"]
    assert f"; {needed} GiB of 16.0 GiB with what else the process takes (predicted" in bundle["README.md"]
    assert f"    {needed} GiB of 16.0 GiB with what else the process takes\n" in plan
    assert f"  host     {needed} GiB of host memory" in plan and "driver" not in plan


def test_what_host_memory_is_for_is_told(tmp_path: Path) -> None:
    """One rank of the node reads the weights for all."""
    host = stages(tmp_path, "full-fsdp")[0]["host"]
    assert re.fullmatch(r"8 processes x \d GiB, 1 x \d+\.\d GiB of weights while they are loaded", host["because"])


def test_processes_on_the_cpu_add_up(tmp_path: Path) -> None:
    stage = good(tmp_path, with_key(BASES["cpu"], "hardware.gpus_per_node", 2)).plan.stages[0]
    assert stage.layout.mesh.world_size == 2
    assert stage.needs.host.needed_bytes == 2 * stage.needs.host.per_gpu_bytes
    assert stage.needs.host.per_gpu_bytes == stage.memory.peak_device_bytes


def test_a_step_waits_for_the_exposed_part_of_communication(tmp_path: Path) -> None:
    time = stages(tmp_path, "full-fsdp")[0]["time"]
    assert time["waiting_share"] == pytest.approx(time["terms"]["communication"] / time["seconds_per_step"], rel=0.01)
    assert time["waiting_share"] > 0
    assert stages(tmp_path, "qlora")[0]["time"]["waiting_share"] == 0


# lora-ddp waits for less than half a percent of a step, which would read 0%.
@pytest.mark.parametrize(("name", "links"), [("full-fsdp", True), ("lora-ddp", False), ("qlora", False)])
def test_people_see_disk_host_and_links(tmp_path: Path, name: str, links: bool) -> None:
    compilation = good(tmp_path, BASES[name])
    document = json.loads(compilation.plan_json)
    host, parts = (document["stages"][0]["host"][key] for key in ("needed_bytes", "because"))
    host /= GIB
    plan, readme = plan_text(document), texts(compilation)["README.md"]

    cores = 3 if name == "qlora" else 4  # no more than a usual machine with such GPUs has
    assert "\n  disk     " in plan and f"\n  host     {host:.1f} GiB of host memory per node, {cores} cores per" in plan
    assert (f"of the memory: {parts}\n" in plan) == (", " in parts)
    assert (
        f"- Host memory: {host:.0f} GiB on every node (predicted: {parts}); cores for the data: {cores} per GPU"
        in readme
    )
    assert ("\n  links    " in plan) == ("- Links: " in readme) == links


@pytest.mark.parametrize(("name", "memory_gib", "warned"), [("lora-ddp", 21, True), ("lora-ddp", 23, False)])
def test_too_little_cpu_memory_is_warned_about(tmp_path: Path, name: str, memory_gib: int, warned: bool) -> None:
    recipe = with_key(BASES[name], "train.strategy", "ddp")
    found = compiled(tmp_path, with_key(recipe, "hardware.host_memory_gib", memory_gib))
    assert ("W0505" in codes(found)) == warned


def test_a_layout_that_the_nodes_memory_holds_is_preferred(tmp_path: Path) -> None:
    """FSDP reads the weights as fp32 once per node, ZeRO in 16 bits, whose pages the processes share."""
    roomy, small = (with_key(BASES["full-fsdp"], "hardware.host_memory_gib", size) for size in (300, 50))
    assert good(tmp_path, roomy).plan.stages[0].layout.strategy == "fsdp"
    assert good(tmp_path, small).plan.stages[0].layout.strategy == "zero1"
    assert "W0505" not in codes(compiled(tmp_path, small))


def test_assumed_host_memory_decides_like_a_stated_one(tmp_path: Path) -> None:
    """Eight ranks that dequantize 223 GiB each do not fit into the memory that is usual with eight H100 GPUs."""
    hardware = {"gpu": "h100", "gpus_per_node": 8}
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "openai/gpt-oss-120b"), "hardware", hardware)
    assumed = compiled(tmp_path, recipe)
    assert assumed.plan is not None and assumed.plan.stages[0].layout.mesh.world_size == 4
    assert "W0505" not in codes(assumed)
    (other,) = [other for other in assumed.plan.stages[0].rejected if other.family == "LoRA, fsdp"]
    needed = re.search(r"needs ([\d,]+) GiB of host memory per node, more than is assumed to be usable", other.reason)
    assert needed and int(needed[1].replace(",", "")) > 972
    stated = compiled(tmp_path, with_key(recipe, "hardware", hardware | {"host_memory_gib": 2048}))
    assert stated.plan.stages[0].layout.mesh.world_size == 8


def test_ranks_that_fuse_experts_need_memory_for_all_of_their_copies(tmp_path: Path) -> None:
    """FSDP has every rank fuse the experts for itself; under ZeRO-3 the first rank alone reads them."""
    hardware = {"gpu": "h200", "gpus_per_node": 8}
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "zai-org/GLM-4.5-Air"), "hardware", hardware)
    roomy, small = (with_key(recipe, "hardware.host_memory_gib", size) for size in (2048, 256))
    taken, held = good(tmp_path, roomy).plan.stages[0], good(tmp_path, small).plan.stages[0]
    assert (taken.layout.strategy, held.layout.strategy) == ("fsdp", "zero3")
    assert "1 x 13.4 GiB of weights and 8 x 188.4 GiB of experts" in taken.needs.host.because
    forced = compiled(tmp_path, with_key(small, "train.strategy", "fsdp"))
    assert "W0505" in codes(forced)


LORA_ON_RANKS = {"adaptation": "lora", "strategy": "ddp"}


def test_experts_in_4_bits_are_downloaded_as_such_and_held_in_16(tmp_path: Path) -> None:
    hardware = {"gpu": "h200", "gpus_per_node": 8}
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "openai/gpt-oss-20b"), "hardware", hardware)
    plan = good(tmp_path, with_key(recipe, "train", LORA_ON_RANKS)).plan.stages[0]
    assert plan.needs.storage.hub_cache_bytes / 1e9 == pytest.approx(13.8, abs=0.06)
    assert plan.needs.read_bytes == plan.needs.storage.hub_cache_bytes
    assert plan.memory.terms["weights"] == pytest.approx(2 * 20_914_757_184, rel=0.01)


def of_gpt_oss(folder: Path, base: str, **keys: object) -> list[StagePlan]:
    recipe = with_key(with_key(BASES[base], "model.name", "openai/gpt-oss-20b"), "hardware", {"gpu": "h200"})
    recipe = with_key(with_key(recipe, "hardware.gpus_per_node", 8), "train", LORA_ON_RANKS)
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan is not None
    return list(plan.stages)


PUBLISHED, SAVED = "8 x 39.6 GiB of experts", "1 x 39.0 GiB of weights"


@pytest.mark.parametrize(
    ("base", "keys", "reads"),
    [
        ("lora-single", {}, [PUBLISHED]),
        ("lora-single", {"model__new_tokens": ["<x1>"]}, [SAVED]),  # from the model that vocabulary.py writes
        ("sft-dpo", {}, [PUBLISHED, SAVED]),
    ],
)
def test_a_stage_reads_in_16_bits_what_the_run_saved(
    tmp_path: Path, base: str, keys: dict[str, object], reads: list[str]
) -> None:
    stages = of_gpt_oss(tmp_path, base, **keys)
    shape = model("openai/gpt-oss-20b").architecture
    assert len(stages) == len(reads)
    for stage, said in zip(stages, reads, strict=True):
        assert said in stage.needs.host.because
        assert ("of experts" in stage.needs.host.because) is (said == PUBLISHED)
        size = published_bytes(shape) if said == PUBLISHED else 2 * stage.value("params")
        assert stage.needs.read_bytes == pytest.approx(size, rel=1e-3)
        (loading,) = (part.because for part in stage.parts if part.name == "loading")
        assert f"reads {size / GIB:.1f} GiB of weights" in loading


def test_the_cpu_as_device_is_not_warned_about_twice(tmp_path: Path) -> None:
    found = compiled(tmp_path, with_key(BASES["cpu"], "hardware.host_memory_gib", 4))
    assert "W0505" not in codes(found)


def test_long_rows_are_answered_in_smaller_batches_where_the_model_fits(tmp_path: Path) -> None:
    """Keys and values of eight questions of 32,768 tokens would take 32 GiB beside 15 GiB of weights."""
    recipe = with_key(with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.1-8B"), "hardware.gpu", "l40s")
    held = [
        good(tmp_path, with_key(recipe, "data.max_length", length)).plan.stages[0].needs.evaluation
        for length in (1024, 32_768)
    ]
    assert [each.trained.whole for each in held] == [True, True]
    assert [each.answers_at_once for each in held] == [8, 1]
    assert all(each.trained.bytes + each.batch_bytes < 44 * GIB for each in held)


def test_figures_without_a_band_and_runs_on_the_first_fsdp_are_told(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["full-fsdp"], "hardware.gpus_per_node", 4), "train.strategy", "fsdp")
    recipe = with_key(recipe, "model.name", "Qwen/Qwen2.5-3B")
    plan = plan_text(json.loads(good(tmp_path, recipe).plan_json))
    assert "(63 published runs on FSDP1, which stand for FSDP2; none with HSDP)" in plan
    assert "with what the driver takes; the accuracy of these two figures is not known\n" in plan


@pytest.mark.parametrize(("memory", "length", "over"), [(7.75, 512, True), (8, 512, False), (24, 1024, False)])
def test_an_evaluation_leaves_as_much_free_as_training_or_says_what_it_takes(
    tmp_path: Path, memory: float, length: int, over: bool
) -> None:
    """7.75 GiB hold the smallest batch beside the model only without what training leaves."""
    recipe = with_key(with_key(BASES["qlora"], "model.name", "meta-llama/Llama-3.1-8B"), "data.max_length", length)
    recipe = with_key(with_key(recipe, "hardware", {"vram_gib": memory}), "train.adaptation", "qlora")
    found = good(tmp_path, recipe)
    (stage,) = found.plan.stages
    held = stage.needs.evaluation
    taken = held.trained.bytes + held.batch_bytes
    assert held.trained.whole and (taken > stage.usable_bytes) is over
    assert held.of_reserve_bytes == max(0, taken - stage.usable_bytes)
    assert taken <= stage.usable_bytes / 0.95
    told = next(line for line in plan_text(json.loads(found.plan_json)).splitlines() if line.startswith("  evaluate"))
    assert (" of it from what training leaves free" in told) is over


@pytest.mark.parametrize(("gpus", "tokens"), [(1, 512), (4, 512), (4, 4096)])
def test_as_many_answers_are_written_at_once_as_find_room_beside_the_weights(
    tmp_path: Path, gpus: int, tokens: int
) -> None:
    """At most all that a GPU answers: a token of each reads the weights that a token of one reads."""
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": gpus})
    recipe = with_key(with_key(recipe, "model.name", "Qwen/Qwen3-4B"), "alignment.generation.max_new_tokens", tokens)
    stage = good(tmp_path, recipe).plan.stages[0]
    held = stage.needs.evaluation
    assert held.answers_at_once == 128 / gpus
    cached = 36 * 2 * 8 * 128 * 2 * (tokens + stage.value("max_length"))  # of an answer: Qwen3-4B has 8 KV heads of 128
    assert held.batch_bytes > held.answers_at_once * cached
    assert held.trained.bytes + held.batch_bytes < stage.usable_bytes


def test_fewer_answers_are_written_at_once_where_longer_ones_leave_no_room(tmp_path: Path) -> None:
    """By evaluate.py, whose answers a recipe may let be longer than those of training."""
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 1})
    plans = [
        good(tmp_path, with_key(recipe, "evaluate.max_new_tokens", tokens)).plan.stages[0] for tokens in (512, 32_768)
    ]
    few, many = (plan.needs.evaluation for plan in reversed(plans))
    assert few.answers_at_once < many.answers_at_once == 128
    assert all(plan.needs.evaluation.batch_bytes < plan.usable_bytes for plan in plans)


def test_a_merged_70b_lies_on_two_gpus_of_80_gb(tmp_path: Path) -> None:
    """131.4 GiB of the 147 that are usable: what whole layers leave empty is a layer of each GPU, and not a tenth."""
    tables = with_key(BASES["lora-ddp"], "model.name", "meta-llama/Llama-3.1-70B")
    tables = with_key(tables, "hardware", {"gpu": "a100-80gb", "gpus_per_node": 2})
    plan = good(tmp_path, with_key(tables, "train", {"adaptation": "qlora"})).plan
    assert plan is not None
    placed = plan.stages[0].needs.evaluation
    assert placed.trained.whole and placed.merged and placed.merged.where == "spread"


@pytest.mark.parametrize("key", ["model.like", "model.trust_remote_code"])
def test_every_rank_reads_a_model_whose_code_is_not_known(tmp_path: Path, key: str) -> None:
    """It may have buffers, which FSDP hands out to nobody: ranks that only made room for them would compute with it."""
    known = good(tmp_path, BASES["full-fsdp"])
    name = BASES["full-fsdp"]["model"]["name"]
    value, model = (name, "org/own") if key == "model.like" else (True, name)
    own = good(tmp_path, with_key(with_key(BASES["full-fsdp"], "model.name", model), key, value))
    assert known.plan.stages[0].needs.first_reads and not own.plan.stages[0].needs.first_reads
