"""A copy of the weights that several of the GPUs which train share: memory and time by hand, and what is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.catalog.models import model
from recipec.estimate.engine import GRAPHS_BYTES, cached_features, engine_bytes
from recipec.estimate.generation import writing_seconds
from recipec.estimate.links import link_of
from recipec.estimate.memory import step_memory
from recipec.estimate.step import step_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout, Mesh
from recipec.planner.plan import StagePlan
from recipec.planner.search.candidates import usable_bytes
from recipec.planner.search.layouts import layouts
from recipec.rules.core import Ledger

GROUPS = 1, 2, 4, 8
WORK = Workload(objective="grpo", own=(("generator", "vllm"),), seq_len_tokens=1024, written_tokens=512)
LAYOUT = Layout("full", "bf16", "zero3", Mesh(shard=8), "none", 2, 8, True, "sdpa", False, "adamw")
KEY = "alignment.generation.engine_tensor_parallel"


def copied(name: str, **more) -> Tables:
    """GRPO on a node of 8 H100, with vLLM on the GPUs that train."""
    recipe = with_key(with_key(BASES["copied"], "model.name", name), "hardware", {"gpu": "h100", "gpus_per_node": 8})
    for key, value in more.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


def large(**more) -> Tables:
    """All weights of a 32B on four nodes, whose copy beside the training finds no room on one GPU."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 3200}
    written = {"engine": "vllm", "per_prompt": 8, "max_new_tokens": 4096}
    keys = {"hardware": hardware, "data__examples": 16_000, "data__max_length": 1024, "train__adaptation": "full"}
    return copied("Qwen/Qwen3-32B", **keys, alignment__generation=written, **more)


def planned(folder: Path, recipe: Tables) -> StagePlan:
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan is not None
    return plan.stages[0]


@pytest.mark.parametrize("gpus", GROUPS)
def test_each_gpu_holds_its_part_of_the_weights_and_its_heads_of_all_answers(gpus: int) -> None:
    shape = model("Qwen/Qwen3-8B").architecture
    step = step_of(shape, LAYOUT, WORK)
    layer = 4096 * max(max(each.forward, each.attention) for each in step.fixed.kinds)
    cache = 16 * 1024 * 2 * 36 * 8 * 128 * 2  # of 16 answers: 8 heads of 128 in 36 layers, in bf16
    logits = gpus * 16 * 3 * 4 * shape.vocab_size  # of all answers of the group
    connected = (1 << 29) * (gpus > 1)
    held = 2 * shape.params / gpus + cache + logits + layer + GRAPHS_BYTES + connected
    assert engine_bytes(shape, WORK, step, 16, gpus) == pytest.approx(held)


def test_heads_that_are_fewer_than_the_gpus_are_on_several() -> None:
    shape = model("Qwen/Qwen2.5-0.5B-Instruct").architecture  # 2 heads of 64 in 24 layers
    assert [cached_features(shape, gpus) for gpus in GROUPS] == [2 * 24 * 64 * heads for heads in (2, 1, 1, 1)]
    assert cached_features(shape, 1) == shape.cached_features


@pytest.mark.parametrize("name", ["google/gemma-3-4b-it", "Qwen/Qwen3-8B", "google/gemma-4-E4B-it"])
def test_a_copy_for_one_gpu_keeps_what_the_model_keeps(name: str) -> None:
    shape = model(name).architecture
    assert cached_features(shape, 1) == shape.cached_features


def test_a_larger_group_takes_less_memory_of_each_gpu() -> None:
    shape = model("Qwen/Qwen3-32B").architecture
    held = [
        step_memory(shape, replace(LAYOUT, engine_tensor_parallel=gpus), WORK).moments["generation"] for gpus in GROUPS
    ]
    assert held == sorted(held, reverse=True)
    assert held[0] - held[1] == pytest.approx(shape.params, rel=0.05)


def token_seconds(gpus: int, kind: str) -> float:
    """Of a token of 16 answers of each rank, while the cache is small beside the weights."""
    shape, card = model("Qwen/Qwen3-32B").architecture, gpu("h100-sxm")
    layout = replace(LAYOUT, engine_tensor_parallel=gpus)
    long, short = (replace(WORK, seq_len_tokens=64 + tokens, written_tokens=tokens) for tokens in (128, 64))
    each = [
        writing_seconds(shape, layout, work, step_of(shape, layout, work), card, link_of(card, kind), 16)
        for work in (long, short)
    ]
    return (each[0] - each[1]) / 64


def test_a_group_shares_the_reads_of_the_weights() -> None:
    one, two, four, eight = (token_seconds(gpus, "nvlink") for gpus in GROUPS)
    assert one > two > four > eight
    read = 2 * model("Qwen/Qwen3-32B").architecture.params / (gpu("h100-sxm").bandwidth_gb_s * 1e9)
    assert one - two > 0.4 * read


@pytest.mark.parametrize("gpus", GROUPS[1:])
def test_a_group_adds_up_over_the_link_of_the_node(gpus: int) -> None:
    slow, fast = (token_seconds(gpus, kind) for kind in ("pcie", "nvlink"))
    moved = 64 * 2 * 2 * 2 * gpus * 16 * 5120 * (gpus - 1) / gpus  # two sums in each of 64 layers, sent and received
    links = [link_of(gpu("h100-sxm"), kind) for kind in ("pcie", "nvlink")]
    waits = [128 * link.latency_seconds(gpus - 1) + moved / (link.ring_gb_s * 1e9) for link in links]
    assert slow - fast == pytest.approx(waits[0] - waits[1], rel=1e-3)
    assert token_seconds(1, "pcie") == token_seconds(1, "nvlink")


def test_a_32b_learns_from_answers_of_vllm_on_several_nodes(tmp_path: Path) -> None:
    """The smallest group with which the layout fits, said in the plan and in the files."""
    done = good(tmp_path, large())
    found = done.plan.stages[0]
    gpus = found.decisions["engine_tensor_parallel"].value
    assert gpus == found.layout.engine_tensor_parallel > 1
    shape, work = done.facts.model.architecture, found.work
    room = usable_bytes(done.facts.gpu, found.layout.mesh.world_size)
    peaks = [
        step_memory(shape, replace(found.layout, engine_tensor_parallel=each), work).peak_allocated_bytes
        for each in (gpus // 2, gpus)
    ]
    assert peaks[0] > room >= peaks[1]
    files = texts(done)
    assert f"        vllm_tensor_parallel_size={gpus},\n" in files["train.py"]
    assert f"{gpus} neighboring GPUs of a node share each copy" in files["README.md"]
    assert f"groups of {gpus} of which share the weights" in " ".join(part.because for part in found.parts)


def test_a_copy_that_fits_is_not_shared(tmp_path: Path) -> None:
    found = planned(tmp_path, copied("Qwen/Qwen3-8B"))
    assert found.decisions["engine_tensor_parallel"].value == found.layout.engine_tensor_parallel == 1


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_recipe_may_state_the_group(tmp_path: Path, gpus: int) -> None:
    found = planned(tmp_path, with_key(copied("Qwen/Qwen3-8B"), KEY, gpus))
    assert found.decisions["engine_tensor_parallel"].origin == "recipe" and found.layout.engine_tensor_parallel == gpus
    whole = planned(tmp_path, copied("Qwen/Qwen3-8B"))
    assert found.decisions["generator_share"].value < whole.decisions["generator_share"].value


@pytest.mark.parametrize(
    ("name", "gpus", "group", "row"),
    [
        ("Qwen/Qwen3-8B", 8, 3, "BAD-174"),  # of 32 heads
        ("Qwen/Qwen2.5-0.5B-Instruct", 6, 3, "BAD-169"),  # of 14 heads
        ("Qwen/Qwen2.5-0.5B-Instruct", 8, 4, "BAD-169"),
    ],
)
def test_a_group_that_divides_neither_node_nor_heads_is_refused(
    tmp_path: Path, name: str, gpus: int, group: int, row: str
) -> None:
    recipe = with_key(with_key(copied(name), "hardware.gpus_per_node", gpus), KEY, group)
    (finding,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code == "E0405")
    assert any(row in line for line in (*finding.help, *finding.notes)), finding
    assert f"`{KEY}`" in finding.help[0]


def test_a_group_of_odd_size_is_no_candidate(tmp_path: Path) -> None:
    """6 GPUs make groups of 2 and none of 4; groups do not reach over nodes."""
    recipe = with_key(copied("Qwen/Qwen3-8B"), "hardware.gpus_per_node", 6)
    recipe = with_key(recipe, "train.global_batch_size", 48)
    ledger = Ledger({}, dict(planned(tmp_path, recipe).decisions))
    found = {each.engine_tensor_parallel for each in layouts(ledger) if each.mesh.world_size == 6}
    assert found == {1, 2}


def test_what_does_not_fit_names_the_limit_of_recipec(tmp_path: Path) -> None:
    recipe = large(train__global_batch_size=4096)
    recipe = with_key(recipe, "hardware.gpu", "a100-40gb")
    (finding,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code == "E0402")
    assert sum("a limit of recipec, not of TRL or vLLM" in note for note in finding.notes) == 1
