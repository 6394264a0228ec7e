"""What a plan says of layouts that count as equally fast, of micro batches, and of keys that decide between them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, with_key, without

from recipec.cli.plan import plan_text
from recipec.planner.plan import StagePlan
from recipec.units import GIB, duration, unlike_gib, usd

ON_L40S = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "mistralai/Mistral-7B-v0.3"},
    "data": {"train": "chat.jsonl", "examples": 40_000, "tokens_per_example": 200, "max_length": 2_048},
    "hardware": {"gpu": "l40s", "gpus_per_node": 4},
    "train": {"adaptation": "lora", "packing": False},
}
FULL = {
    **ON_L40S,
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "data": {"train": "chat.jsonl", "examples": 2_000_000, "tokens_per_example": 900, "max_length": 4_096},
    "hardware": {"gpu": "h100", "gpus_per_node": 8},
    "train": {"packing": False, "attention": "sdpa", "global_batch_size": 64},  # larger ones would share the limit
}


def stage(folder: Path, recipe: Tables) -> StagePlan:
    return compiled(folder, recipe, only_plan=True).plan.stages[0]


def test_the_rule_books_start_with_ddp_where_the_model_fits(tmp_path: Path) -> None:
    """Also where another layout is predicted to be a little faster in less memory."""
    found = stage(tmp_path, ON_L40S)
    assert found.layout.strategy == "ddp"
    quicker = [row for row in found.rejected if row.seconds and row.seconds < found.seconds]
    assert quicker and all(row.seconds * 1.25 >= found.seconds for row in quicker)


def test_what_was_not_taken_has_its_cost(tmp_path: Path) -> None:
    """At the price of the whole run, for its training."""
    plan = good(tmp_path, ON_L40S)
    found = plan.plan.stages[0]
    (zero,) = [row for row in found.rejected if row.family == "LoRA, zero1"]
    cost = found.cost_usd * zero.seconds / found.run_seconds
    told = plan_text(json.loads(plan.plan_json)).splitlines()
    row = next(line for line in told if line.startswith("    LoRA, zero1 "))
    assert f" {duration(zero.seconds)} " in row and f" {usd(cost)} " in row
    (head,) = [line for line in plan_text(json.loads(plan.plan_json)).splitlines() if "allocated per GPU" in line]
    assert head.endswith("training time  its cost")


def test_a_faster_layout_that_counts_as_equal_is_named_where_it_saves_money(tmp_path: Path) -> None:
    """FSDP takes less memory; ZeRO-2 is faster in more."""
    recipe = with_key(FULL, "train.activation_checkpointing", False)  # with which fsdp would be nearly as fast
    found = stage(tmp_path, recipe)
    (line,) = [line for line in found.options if line.startswith("set `train.strategy = ")]
    strategy, ratio = re.match(r'set `train.strategy = "(\w+)"`: training takes (\S+)x the time', line).groups()
    then = stage(tmp_path, with_key(recipe, "train.strategy", strategy))
    assert then.seconds / found.seconds == pytest.approx(float(ratio), abs=0.01)
    saved = found.cost_usd - then.cost_usd
    assert saved >= 20 and saved >= 0.05 * found.cost_usd
    assert f"{usd(then.cost_usd)} instead of {usd(found.cost_usd)}" in line
    short = with_key(recipe, "data.examples", 30_000)
    assert not [line for line in stage(tmp_path, short).options if line.startswith("set `train.strategy")]


SHORT = with_key(with_key(FULL, "data.examples", 200_000), "model.name", "Qwen/Qwen3-8B")


def test_a_saving_of_a_sixth_is_told_where_it_is_a_few_dollars(tmp_path: Path) -> None:
    recipe = with_key(SHORT, "train.activation_checkpointing", False)  # with which fsdp would be nearly as fast
    (line,) = [line for line in stage(tmp_path, recipe).options if line.startswith("set `train.strategy = ")]
    then, now = (float(money) for money in re.findall(r"\$([\d.]+)", line))
    assert 5 <= now - then < 20


def test_the_reason_of_a_strategy_names_the_fastest(tmp_path: Path) -> None:
    recipe = with_key(SHORT, "train.activation_checkpointing", False)  # with which fsdp would be nearly as fast
    because = stage(tmp_path, recipe).decisions["strategy"].because
    assert "zero2 takes 0.8x the time, which counts as equal (within 25%), and fsdp is simpler" in because


@pytest.mark.parametrize("base", ["full-fsdp", "pretrain", "lora-single"])
def test_the_smallest_micro_batch_that_is_about_as_fast_is_taken(tmp_path: Path, base: str) -> None:
    recipe = with_key(BASES[base], "train.global_batch_size", 256)
    found = stage(tmp_path, recipe)
    recipe = with_key(recipe, "train.strategy", found.layout.strategy)
    recipe = with_key(recipe, "train.activation_checkpointing", found.layout.checkpointing)
    size = found.layout.micro_batch
    for other in (size // 2, 2 * size):
        wanted = with_key(recipe, "train.micro_batch_size", other)
        plan = compiled(tmp_path, wanted, only_plan=True).plan if other else None
        if plan is None or plan.stages[0].layout.adapts is not found.layout.adapts:
            continue
        then = plan.stages[0]
        less = then.memory.peak_allocated_bytes < found.memory.peak_allocated_bytes
        assert not (less and then.seconds <= 1.019 * found.seconds), f"{other} takes less memory in the same time"
        assert found.seconds <= 1.021 * then.seconds, f"{other} is faster"


def test_a_micro_batch_that_gains_nothing_is_not_taken(tmp_path: Path) -> None:
    """Twice as many sequences fit, and take the same time within 2%."""
    recipe = with_key(with_key(BASES["pretrain"], "train.global_batch_size", 256), "train.strategy", "fsdp")
    found = stage(tmp_path, recipe)
    then = stage(tmp_path, with_key(recipe, "train.micro_batch_size", 2 * found.layout.micro_batch))
    assert then.layout.micro_batch == 2 * found.layout.micro_batch
    assert then.memory.peak_allocated_bytes > found.memory.peak_allocated_bytes
    assert 0.98 <= then.seconds / found.seconds <= 1.02
    assert "smallest within 2%" in found.decisions["micro_batch_size"].because


def test_a_strategy_that_keeps_the_teacher_whole_says_so(tmp_path: Path) -> None:
    recipe = with_key(BASES["on-policy-distill"], "alignment.teacher", "Qwen/Qwen3-32B")
    recipe = with_key(with_key(recipe, "model.name", "Qwen/Qwen3-4B-Base"), "train", {})
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 8})
    found = stage(tmp_path, recipe)
    assert found.layout.strategy == "zero3"
    reasons = {row.family: row.reason for row in found.rejected}
    assert reasons["full fine-tuning, fsdp"].endswith("; fsdp keeps the teacher whole on each GPU, 61.0 GiB")
    assert "teacher" not in reasons["full fine-tuning, ddp"]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (70.41, 70.38, ("70.41 GiB", "70.38 GiB")),
        (73, 66, ("73.0 GiB", "66.0 GiB")),
        (1, 1, ("1.000 GiB", "1.000 GiB")),
    ],
)
def test_sizes_that_differ_are_told_with_digits_that_differ(one: float, other: float, told: tuple[str, str]) -> None:
    assert unlike_gib(round(one * GIB), round(other * GIB)) == told


def test_a_key_of_memory_that_decides_the_adaptation_is_named(tmp_path: Path) -> None:
    """Without it all weights are trained, which the rules put first for a new domain."""
    recipe = {
        **ON_L40S,
        "goal": {"task": "continue-pretrain", "new_domain": True},
        "model": {"name": "allenai/Olmo-3-1025-7B"},
        "data": {"train": {"hub": "a/b"}, "examples": 9_000_000, "tokens_per_example": 2_200, "max_length": 8_192},
        "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "network_gbps": 3_200},
        "train": {"activation_checkpointing": False},
    }
    found = compiled(tmp_path, recipe, only_plan=True)
    assert found.plan.stages[0].layout.adapts.name != "full"
    (finding,) = [each for each in found.diagnostics if each.code == "W0545"]
    assert "`train.activation_checkpointing`" in finding.title
    assert finding.help[0].startswith("remove `train.activation_checkpointing`: full fine-tuning, fsdp then fits in ")
    then = compiled(tmp_path, without(recipe, "train"), only_plan=True)
    assert then.plan.stages[0].layout.adapts.name == "full"
    for asked in (without(recipe, "train"), with_key(recipe, "train.adaptation", "lora")):
        assert "W0545" not in codes(compiled(tmp_path, asked, only_plan=True))


@pytest.mark.parametrize("asked", [True, False])
def test_whose_choice_an_adaptation_is_is_said(tmp_path: Path, asked: bool) -> None:
    recipe = ON_L40S if asked else without(ON_L40S, "train.adaptation")
    found = stage(tmp_path, recipe)
    (row,) = [row for row in found.rejected if row.family.startswith("QLoRA, ddp")]
    assert found.layout.adapts.name == "lora"
    assert (
        "recipe.toml" in row.reason and " sets LoRA, and recipec stores its base in fewer bits" in row.reason
    ) is asked
    assert ("recipec prefers LoRA" in row.reason) is not asked


SLOW_NETWORK: Tables = {
    "recipe": {"name": "slow"},
    "goal": {"task": "instruct"},
    "model": {"name": "Qwen/Qwen3-32B"},
    "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 400, "max_length": 2048},
    "hardware": {"gpu": "a100-40gb", "gpus_per_node": 2, "nodes": 2, "network_gbps": 24},
}


@pytest.mark.parametrize("priority", [None, "speed"])
def test_lora_that_waits_for_its_weights_gives_way_to_qlora(tmp_path: Path, priority: str | None) -> None:
    """64 GB of weights cross 24 Gbit/s in every pass, or come from host memory: 8 times the time of QLoRA."""
    found = stage(tmp_path, with_key(SLOW_NETWORK, "goal.priority", priority))
    assert found.layout.adapts.name == "qlora" and found.layout.on_device
    assert "LoRA fits, but takes" in found.decisions["adaptation"].because
    stated = stage(tmp_path, with_key(with_key(SLOW_NETWORK, "train.adaptation", "lora"), "train.quantization", "none"))
    assert stated.layout.adapts.name == "lora"
    near = stage(tmp_path, with_key(SLOW_NETWORK, "hardware", {"gpu": "h100", "gpus_per_node": 2}))
    assert near.layout.adapts.name == "lora", "a third faster is no reason"


def test_full_fine_tuning_that_waits_for_the_network_gives_way_to_adapters(tmp_path: Path) -> None:
    """With quality first it is wanted, but not for ten times the time of adapters."""
    tables = with_key(with_key(SLOW_NETWORK, "goal.priority", "quality"), "model.name", "meta-llama/Llama-3.1-70B")
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 1_600}
    fast = with_key(tables, "hardware", hardware)
    assert stage(tmp_path, fast).layout.adapts.trains_all
    slow = with_key(fast, "hardware.network_gbps", 50)
    found = stage(tmp_path, slow)
    assert found.layout.adapts.name == "lora" and found.layout.on_device
    assert re.search(r"full fine-tuning fits, but takes [0-9.]+x the time", found.decisions["adaptation"].because)
    assert stage(tmp_path, with_key(slow, "train.adaptation", "full")).layout.adapts.trains_all


def test_states_in_8_bits_come_before_waiting_for_the_network_and_before_states_in_host_memory(tmp_path: Path) -> None:
    """On one node they fit; with long rows, while activations wait in host memory."""
    full = with_key(with_key(SLOW_NETWORK, "train.adaptation", "full"), "hardware.gpu", "h100")
    full = with_key(full, "hardware.gpus_per_node", 8)
    waits = stage(tmp_path, full)
    assert (waits.layout.optimizer, waits.layout.mesh.world_size) == ("adamw-8bit", 8)
    assert "of a step waits for other GPUs" in waits.decisions["optimizer"].because
    long = with_key(with_key(full, "hardware.nodes", 1), "data.max_length", 32_768)
    found = stage(tmp_path, with_key(long, "hardware.network_gbps", None))
    assert found.layout.optimizer == "adamw-8bit" and found.layout.activation_offload and not found.layout.offloads


def test_a_larger_batch_comes_before_waiting_for_the_network(tmp_path: Path) -> None:
    """Weights are gathered once in a step: with more rows in it, they cross the network less often."""
    tables = with_key(with_key(SLOW_NETWORK, "train.adaptation", "full"), "data.examples", 200_000)
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 400}
    tables = with_key(with_key(tables, "hardware", hardware), "model.name", "meta-llama/Llama-3.1-70B")
    found = stage(tmp_path, tables)
    batch = found.decisions["global_batch_size"]
    assert batch.value > 64 and "GPUs would wait for each other" in batch.because
    usual = stage(tmp_path, with_key(tables, "train.global_batch_size", 64))
    assert usual.layout.global_batch == 64 and usual.seconds > 1.25 * found.seconds


def test_of_sharding_over_all_ranks_and_within_nodes_the_faster_is_taken(tmp_path: Path) -> None:
    """They are as simple, so a faster network is no reason for a slower layout."""
    recipe = with_key(with_key(SLOW_NETWORK, "model.name", "meta-llama/Llama-3.1-70B"), "train.adaptation", "lora")
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 4})
    found = [stage(tmp_path, with_key(recipe, "hardware.network_gbps", rate)) for rate in (800, 1_600, 3_200)]
    assert {each.layout.strategy for each in found} == {"hsdp"}
    assert found[0].seconds >= found[1].seconds >= found[2].seconds


@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"])
def test_where_memory_comes_first_no_row_of_the_table_is_as_fast_in_less(tmp_path: Path, model: str) -> None:
    """Experts have no 4-bit base that ranks share, so that LoRA takes less than QLoRA."""
    tables = with_key(with_key(SLOW_NETWORK, "hardware", {"gpu": "h100", "gpus_per_node": 8}), "model.name", model)
    found = stage(tmp_path, with_key(tables, "goal.priority", "memory"))
    fit = [row for row in found.rejected if row.seconds and row.layout.on_device and row.layout.can_be_built]
    less = [row for row in fit if (row.peak_allocated_bytes or 0) < found.memory.peak_allocated_bytes]
    assert fit and not [row.family for row in less if row.seconds and row.seconds <= found.seconds * 1.1]
    assert found.memory.peak_allocated_bytes < stage(tmp_path, tables).memory.peak_allocated_bytes
    assert "the recipe puts memory first" in " ".join(row.reason for row in fit)


def test_the_plan_says_that_its_batch_is_raised(tmp_path: Path) -> None:
    tables = with_key(with_key(SLOW_NETWORK, "train.adaptation", "full"), "data.examples", 200_000)
    tables = with_key(tables, "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 400})
    text = plan_text(json.loads(good(tmp_path, with_key(tables, "model.name", "meta-llama/Llama-3.1-70B")).plan_json))
    (line,) = [line for line in text.splitlines() if line.startswith("  batch ")]
    assert line.endswith("; raised from 64, with which GPUs would wait for each other")


def test_where_memory_comes_first_a_smaller_micro_batch_is_taken_that_is_about_as_fast(tmp_path: Path) -> None:
    tables = with_key(with_key(SLOW_NETWORK, "hardware", {"vram_gib": 8}), "train.adaptation", "qlora")
    tables = with_key(with_key(tables, "model.name", "meta-llama/Llama-3.2-3B-Instruct"), "data.max_length", 1_024)
    usual, first = (stage(tmp_path, with_key(tables, "goal.priority", each)) for each in (None, "memory"))
    assert first.layout.micro_batch < usual.layout.micro_batch
    assert first.memory.peak_allocated_bytes < usual.memory.peak_allocated_bytes
    assert first.seconds <= 1.13 * usual.seconds
