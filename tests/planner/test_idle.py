"""GPUs that would be idle: a larger batch of those that the rule accepts comes first, and the obstacle is a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key
from tiers import one_in

from recipec.axes import STRATEGIES
from recipec.cli.plan import plan_text
from recipec.planner.document import plan_document
from recipec.planner.plan import StagePlan
from recipec.units import duration, usd

Tables = dict

TWO_NODES: Tables = {
    "recipe": {"name": "two-nodes"},
    "goal": {"task": "instruct"},
    "model": {"name": "Qwen/Qwen2.5-32B-Instruct"},
    "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 200, "max_length": 512},
    "hardware": {"gpu": "l40s", "gpus_per_node": 8, "nodes": 2},
    "train": {"adaptation": "full"},
}

LORA: Tables = {
    "recipe": {"name": "idle"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "data": {"train": "chat.jsonl", "examples": 20_000, "tokens_per_example": 500},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 8, "network_gbps": 1600},
}


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_check=True).plan
    assert plan is not None
    return plan.stages[0]


def test_the_batch_is_raised_before_nodes_are_idle(tmp_path: Path) -> None:
    stage = planned(tmp_path, LORA)
    batch = stage.decisions["global_batch_size"]
    assert batch.value == 128 and "raised from 32, with which GPUs would be idle" in batch.because
    assert batch.accepts and batch.value <= batch.accepts[1]
    stated = planned(tmp_path, with_key(LORA, "train.global_batch_size", 32))
    assert stated.layout.mesh.world_size < stage.layout.mesh.world_size
    assert stated.value("global_batch_size") == 32, "what the recipe says is not raised"


def test_few_rows_keep_the_usual_batch(tmp_path: Path) -> None:
    assert planned(tmp_path, with_key(LORA, "data.examples", 1_000)).value("global_batch_size") == 32


def test_the_obstacle_is_a_row(tmp_path: Path) -> None:
    starved = planned(tmp_path, with_key(LORA, "train.global_batch_size", 32))
    (row,) = (row for row in starved.rejected if row.family == "LoRA on 64 GPUs")
    assert row.reason.startswith("the global batch has 32 sequences")
    slow = with_key(with_key(LORA, "hardware.network_gbps", 1), "train.adaptation", "full")
    (row,) = (row for row in planned(tmp_path, slow).rejected if row.family.endswith("on 64 GPUs"))
    assert "x the time" in row.reason


SEVEN: Tables = with_key(BASES["grpo"], "hardware", {"gpu": "a100-80gb", "gpus_per_node": 7})


def test_a_batch_of_answers_is_raised_to_one_that_all_gpus_share(tmp_path: Path) -> None:
    """128 answers are whole groups for 1, 2, 4 or 8 GPUs; with 7, six were idle."""
    stage = planned(tmp_path, with_key(SEVEN, "data.examples", 20_000))
    batch, group = stage.decisions["global_batch_size"], stage.value("per_prompt")
    assert stage.layout.mesh.world_size == 7
    assert batch.value == stage.layout.global_batch and batch.value % 7 == 0 == batch.value % group
    assert batch.accepts and batch.value <= batch.accepts[1] and "raised from 128" in batch.because


def test_a_stated_batch_of_answers_that_not_all_gpus_share_is_told_with_one_that_they_share(tmp_path: Path) -> None:
    stated = with_key(with_key(SEVEN, "data.examples", 20_000), "train.global_batch_size", 128)
    stage = planned(tmp_path, stated)
    assert stage.layout.mesh.world_size < 7 and stage.layout.global_batch == 128, "what the recipe says is not raised"
    (row,) = (row for row in stage.rejected if row.family.endswith("on 7 GPUs"))
    assert "128 answers" in row.reason and "multiples of 112" in row.reason, "each prompt has 16 answers"
    *_, batch, fewer = advised(tmp_path, stated, "W0503")
    assert batch.startswith("set `train.global_batch_size = 224`: ddp on 7 GPUs") and "multiples of 112" in fewer
    assert planned(tmp_path, with_key(stated, "train.global_batch_size", 224)).layout.mesh.world_size == 7


def advised(folder: Path, tables: Tables, code: str) -> tuple[str, ...]:
    return next((found.help for found in compiled(folder, tables).diagnostics if found.code == code), ())


OSS: Tables = {
    **TWO_NODES,
    "model": {"name": "openai/gpt-oss-120b"},
    "data": {"train": "chat.jsonl", "examples": 50_000, "tokens_per_example": 600, "max_length": 4096},
    "hardware": {"gpu": "h100", "gpus_per_node": 8},
    "train": {},
}


def test_what_is_advised_for_idle_gpus_uses_them(tmp_path: Path) -> None:
    """Every rank dequantizes all experts: more of the host memory that is assumed is what a faster layout lacks."""
    (memory,) = advised(tmp_path, OSS, "W0503")
    told = "set `hardware.host_memory_gib = 1912` if a node has it: zero3 on 8 GPUs then takes 0.3x the time to train"
    assert memory == told, "on 4 GPUs a node is assumed to have half as much, which makes the run far longer"
    assert not advised(tmp_path, with_key(OSS, "hardware.host_memory_gib", 1912), "W0503")


def test_a_batch_is_advised_only_where_it_gives_gpus_work(tmp_path: Path) -> None:
    small = with_key(with_key(LORA, "hardware.nodes", 2), "train.global_batch_size", 8)
    advice = [line for line in advised(tmp_path, small, "W0503") if "global_batch_size" in line]
    size = int(advice[0].split("`")[1].rpartition(" = ")[2])
    assert planned(tmp_path, with_key(small, "train.global_batch_size", size)).layout.mesh.world_size == 16
    few = with_key(small, "data.examples", 200)
    assert not [line for line in advised(tmp_path, few, "W0503") if "global_batch_size" in line], "too few steps"


def test_a_strategy_is_advised_where_the_whole_run_is_shorter(tmp_path: Path) -> None:
    """Most of a short run is no training, and its evaluations may take longer."""
    tables = with_key(with_key(LORA, "model.name", "Qwen/Qwen3-32B"), "data.examples", 1_500)
    tables = with_key(tables, "hardware", {"gpu": "h100", "gpus_per_node": 4, "nodes": 2})
    tables = with_key(tables, "train", {"adaptation": "lora", "global_batch_size": 16})
    tables = with_key(tables, "data.tokens_per_example", 100)
    assert not [line for line in advised(tmp_path, tables, "W0503") if "strategy" in line]
    long = with_key(tables, "data.examples", 100_000)
    (line,) = [line for line in advised(tmp_path, long, "W0503") if "strategy" in line]
    then = planned(tmp_path, with_key(long, "train.strategy", line.split('"')[1]))
    now = planned(tmp_path, long)
    assert then.run_seconds < now.run_seconds
    times = f"the whole run takes {duration(then.run_seconds)} instead of {duration(now.run_seconds)}"
    assert line.endswith(f"{times} and {usd(then.cost_usd)} instead of {usd(now.cost_usd)}")


def test_the_batch_is_no_obstacle_where_it_has_an_example_for_each_gpu(tmp_path: Path) -> None:
    tables = with_key(with_key(LORA, "model.name", "meta-llama/Llama-3.1-70B"), "hardware.nodes", 2)
    stated = {"adaptation": "lora", "strategy": "zero3", "offload": "optimizer"}
    tables = with_key(with_key(tables, "hardware.network_gbps", 100), "train", stated)
    stage = planned(tmp_path, tables)
    assert stage.layout.mesh.world_size == 8 and stage.layout.global_batch >= 16
    (row,) = (row for row in stage.rejected if row.family.endswith("on 16 GPUs"))
    assert "the time" in row.reason and "global batch" not in row.reason


def test_what_is_advised_for_crowded_host_memory_is_enough(tmp_path: Path) -> None:
    (advice,) = advised(tmp_path, with_key(OSS, "train.strategy", "fsdp"), "W0505")
    removal, told = advice.split(": ")
    assert removal == "remove `train.strategy`" and told.startswith("zero3 on 4 GPUs then takes ")
    assert ", and its host memory is enough" in told
    assert not advised(tmp_path, OSS, "W0505")


def test_host_memory_that_decides_is_told(tmp_path: Path) -> None:
    found = compiled(tmp_path, OSS, only_plan=True)
    (warning,) = (each for each in found.diagnostics if each.code == "W0523" and "host memory" in each.title)
    assert warning.notes == ("with 1,912 GiB of host memory in a node: zero3 on 8 GPUs",)
    assert "assumes  1,568 GiB of host memory in a node" in plan_text(plan_document(found.plan))


def test_a_gpu_that_is_paid_for_does_not_idle(tmp_path: Path) -> None:
    """Within a node little is enough: what idles is paid for, and the simpler layout only saves lines."""
    tables = with_key(BASES["grpo"], "hardware.gpus_per_node", 2)
    stage = planned(tmp_path, with_key(tables, "model.name", "Qwen/Qwen2.5-1.5B-Instruct"))
    alone = next(row for row in stage.rejected if row.family.endswith("single"))
    assert stage.layout.mesh.world_size == 2 and alone.seconds is not None
    assert 1.05 < alone.seconds / stage.seconds < 1.25


def test_a_faster_adaptation_says_why_it_is_not_taken(tmp_path: Path) -> None:
    stage = planned(tmp_path, with_key(BASES["grpo"], "model.name", "Qwen/Qwen2.5-1.5B-Instruct"))
    (full,) = (row for row in stage.rejected if row.family.startswith("full"))
    said = 'ADPT-001 puts LoRA first for what is learned, not for speed: set `train.adaptation = "full"`'
    assert full.reason.endswith(f"x the time per example; {said}")


ADAPTER_70B: Tables = {
    "recipe": {"name": "idle"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.3-70B-Instruct"},
    "data": {"train": "chat.jsonl", "examples": 10_000, "tokens_per_example": 600, "max_length": 2048},
    "hardware": {"gpu": "rtx-a6000", "gpus_per_node": 2},
    "train": {"adaptation": "qlora"},
}


@pytest.fixture
def whole_bases() -> Iterator[None]:
    """Without the strategies that share a 4-bit base, with which nothing must wait in host memory."""
    known = dict(STRATEGIES)
    for name in ("fsdp", "hsdp"):
        del STRATEGIES[name]
    yield
    STRATEGIES.clear()  # the order of the rows is their rank
    STRATEGIES.update(known)


@pytest.mark.usefixtures("whole_bases")
def test_states_of_a_small_adapter_may_wait_in_host_memory(tmp_path: Path) -> None:
    """They take about 1% of a step: at 4.8 times that the two GPUs would still be clearly faster than one."""
    stage = planned(tmp_path, ADAPTER_70B)
    assert (stage.layout.gpus, stage.layout.offload) == (2, "cpu")
    assert stage.time.terms["offload"] * 3.8 < 0.25 * stage.time.seconds_per_step
    alone = next(row for row in stage.rejected if "single" in row.family)
    assert alone.seconds is not None and 1.25 * stage.seconds < alone.seconds < 2 * stage.seconds
    assert not advised(tmp_path, ADAPTER_70B, "W0503")


@pytest.mark.usefixtures("whole_bases")
def test_states_that_take_much_of_a_step_stay_on_the_gpu_and_are_named(tmp_path: Path) -> None:
    """One core computes AdamW in 0.4 of the 3.7 s of a step of short rows."""
    tables = with_key(with_key(ADAPTER_70B, "data.tokens_per_example", 100), "hardware.cpu_cores", 1)
    tables = with_key(tables, "train.global_batch_size", 2)
    stage = planned(tmp_path, tables)
    assert (stage.layout.gpus, stage.layout.offload) == (1, "none")
    named, fewer = advised(tmp_path, tables, "W0503")
    assert named.startswith('set `train.strategy = "zero1"` and `train.offload = "cpu"`: zero1 on 2 GPUs then takes 0.')
    assert "from 2 times the speed on" in named
    then = planned(tmp_path, with_key(with_key(tables, "train.strategy", "zero1"), "train.offload", "cpu"))
    assert f"takes {duration(then.run_seconds)} instead of {duration(stage.run_seconds)}" in named
    assert ": as the recipe is, what is clearly faster on more GPUs keeps optimizer states in host memory; " in fewer
    (row,) = (row for row in stage.rejected if row.layout == then.layout)
    assert row.reason.startswith("fits, 1.") and "faster" in row.reason
    assert not [row for row in stage.rejected if "on 2 GPUs" in row.family], "that some fit is not hidden"


PACKED_70B: Tables = {
    "recipe": {"name": "70b"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-70B"},
    "data": {"train": "chat.jsonl", "examples": 500_000, "tokens_per_example": 900, "max_length": 8192},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 3200, "host_memory_gib": 2000},
    "train": {"packing": True},
}


@pytest.mark.parametrize("adaptation", [None, "full"])
def test_a_batch_is_raised_with_which_a_preferred_training_fits_or_one_that_can_be_built(
    tmp_path: Path, adaptation: str | None
) -> None:
    """Four packed sequences are 4 GPUs with LoRA, and weights in tensor parallel ranks that no bundle trains."""
    stage = planned(tmp_path, with_key(PACKED_70B, "train.adaptation", adaptation))
    assert stage.layout.adapts.trains_all and stage.layout.can_be_built
    assert stage.layout.mesh.world_size == stage.value("global_batch_size") == 32
    lora = planned(tmp_path, with_key(PACKED_70B, "train.adaptation", "lora"))
    assert not lora.layout.adapts.trains_all and lora.layout.mesh.world_size == 32


def test_nodes_that_do_not_divide_the_batch_leave_a_few_idle_and_not_most(tmp_path: Path) -> None:
    """Of 17 nodes 16 train with the largest batch that is accepted; 136 sequences are more."""
    many = with_key(with_key(LORA, "hardware.network_gbps", 3200), "data.examples", 50_000)
    stage = planned(tmp_path, with_key(many, "hardware.nodes", 17))
    assert stage.layout.mesh.world_size == stage.value("global_batch_size") == 128


def test_larger_batches_are_tried_where_one_sequence_for_each_gpu_does_not_pay(tmp_path: Path) -> None:
    """Steps of so short rows take as long with more of them."""
    small = with_key(with_key(LORA, "model.name", "Qwen/Qwen3-1.7B"), "hardware.nodes", 6)
    small = with_key(with_key(small, "hardware.network_gbps", 3200), "data", OSS["data"])
    stage = planned(tmp_path, small)
    assert stage.layout.mesh.world_size >= 32 and stage.value("global_batch_size") == 128


def test_a_batch_that_ranks_cannot_share_is_computed_in_as_few_micro_steps_as_fit(tmp_path: Path) -> None:
    """64 sequences on 40 ranks become 160, four for each: at once, and not one after the other."""
    tables = with_key(with_key(LORA, "hardware.nodes", 5), "model.name", "Qwen/Qwen3-32B")
    tables = with_key(tables, "hardware.network_gbps", 3200)
    stage = planned(tmp_path, with_key(tables, "goal.priority", "quality"))
    assert stage.layout.mesh.world_size == 40 and stage.layout.global_batch == 160
    assert (stage.layout.micro_batch, stage.layout.accumulation) == (4, 1)


IN_FULL: Tables = with_key(BASES["grpo"], "train", {"adaptation": "full"})


@pytest.mark.parametrize("gpus", [3, 5, 7])
def test_answers_that_not_all_gpus_share_are_more_where_nothing_fits_otherwise(tmp_path: Path, gpus: int) -> None:
    """128 answers are for one GPU alone, on which 8B do not train in full."""
    odd = with_key(with_key(IN_FULL, "model.name", "Qwen/Qwen3-8B"), "data.examples", 8_000)
    stage = planned(tmp_path, with_key(odd, "hardware", {"gpu": "h100", "gpus_per_node": gpus}))
    assert stage.layout.mesh.world_size == gpus and stage.value("global_batch_size") % gpus == 0


def test_more_gpus_train_with_states_in_host_memory_where_fewer_did(tmp_path: Path) -> None:
    five = {"gpu": "h100", "gpus_per_node": 8, "nodes": 5, "network_gbps": 400}
    large = with_key(with_key(IN_FULL, "model.name", "Qwen/Qwen3-32B"), "data.examples", 8_000)
    stage = planned(tmp_path, with_key(large, "hardware", five))
    assert stage.layout.offloads and stage.layout.mesh.world_size == 40


SLOW: Tables = {
    **{key: LORA[key] for key in ("recipe", "goal")},
    "model": {"name": "Qwen/Qwen3-8B"},
    "data": {"train": "chat.jsonl", "examples": 100_000, "tokens_per_example": 600, "max_length": 4096},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 6, "network_gbps": 400},
    "train": {"adaptation": "full"},
}


def test_a_batch_is_raised_until_all_gpus_work(tmp_path: Path) -> None:
    """256 sequences are computed by 24 of 48 GPUs, which do not wait: half of what is paid for is idle."""
    stage = planned(tmp_path, SLOW)
    batch = stage.decisions["global_batch_size"]
    assert stage.layout.mesh.world_size == 48 and batch.accepts and batch.value > batch.accepts[1]
    assert f"the nearest to 512 that 48 ranks can make in micro batches of {stage.layout.micro_batch}" in batch.because
    assert "which counts as the 512 that its rule accepts" in batch.because


@pytest.mark.parametrize("nodes", one_in(3, [9, 13, 24]))
def test_a_batch_that_ranks_share_is_hardly_above_the_accepted_ones(tmp_path: Path, nodes: int) -> None:
    batch = planned(tmp_path, with_key(SLOW, "hardware.nodes", nodes)).decisions["global_batch_size"]
    assert batch.accepts and batch.value <= 1.07 * batch.accepts[1]


def test_a_batch_is_not_raised_for_little_where_gpus_stay_idle(tmp_path: Path) -> None:
    """A batch of 128 gave two of four GPUs work, for a run of 14 minutes instead of 15."""
    tables = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-0.6B")
    tables = with_key(tables, "hardware", {"gpu": "rtx-4090", "gpus_per_node": 1, "nodes": 4})
    data = {key: value for key, value in tables["data"].items() if key != "max_length"}
    recipe = tables | {"data": {**data, "examples": 100_000, "tokens_per_example": 50}}
    found = compiled(tmp_path, recipe, only_plan=True).plan.stages[0]
    assert (found.layout.gpus, found.layout.global_batch) == (1, 32)
    assert "raised" not in found.decisions["global_batch_size"].because
