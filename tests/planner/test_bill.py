"""The bill of a run: every part has its time, the budget holds the sum, and the parts follow what they are made of."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

import pytest
from compiling import BASES, compiled, good, with_key, without
from msgspec.structs import replace

from recipec.estimate.whole_run import Rates, Rows, checkpoints, failures, forward_share, rates_of, tokenization
from recipec.planner.plan import StagePlan
from recipec.units import GIB

NODES = {"gpu": "h100", "gpus_per_node": 8, "nodes": 64, "host_memory_gib": 4_000}


def stage(folder: Path, recipe: dict, index: int = 0) -> StagePlan:
    plan = compiled(folder, recipe, only_check=True).plan
    assert plan is not None
    return plan.stages[index]


def seconds(plan: StagePlan) -> dict[str, float]:
    return {part.name: part.seconds for part in plan.parts}


def test_a_run_is_more_than_its_training_steps(tmp_path: Path) -> None:
    plan = stage(tmp_path, BASES["full-fsdp"])
    assert list(seconds(plan)) == [
        *("data preparation", "download", "loading", "tokenization", "training steps", "evaluations"),
        *("the result", "scoring"),
    ]
    assert seconds(plan)["training steps"] == pytest.approx(plan.steps * plan.time.seconds_per_step)
    assert plan.run_seconds == pytest.approx(sum(seconds(plan).values()))
    assert all(part.seconds > 0 and part.because for part in plan.parts)


def test_the_cost_is_of_the_whole_run(tmp_path: Path) -> None:
    recipe = with_key(BASES["full-fsdp"], "budget", {"price_per_gpu_hour": 3.6})
    plan = stage(tmp_path, recipe)
    assert plan.cost_usd == pytest.approx(plan.run_seconds / 1000 * plan.decisions["gpus"].value)


def test_a_budget_that_holds_the_training_steps_alone_is_broken(tmp_path: Path) -> None:
    plan = stage(tmp_path, BASES["full-fsdp"])
    hours = (plan.seconds + plan.run_seconds) / 2 / 3600
    found = compiled(tmp_path, with_key(BASES["full-fsdp"], "budget", {"max_hours": hours}))
    assert "E0403" in [finding.code for finding in found.diagnostics]


def test_what_is_scored_before_training_is_scored_once(tmp_path: Path) -> None:
    recipe = with_key(BASES["dpo-full"], "alignment.precompute_reference", True)
    plan = stage(tmp_path, recipe)
    assert seconds(plan)["reference"] == pytest.approx(plan.reference_seconds)
    assert plan.seconds == pytest.approx(plan.reference_seconds + seconds(plan)["training steps"])


def test_evaluations_take_the_forward_share_of_what_their_rows_take_in_training(tmp_path: Path) -> None:
    """Of full fine-tuning without recomputation a third: forward, and twice as much backward."""
    recipe = with_key(BASES["full-fsdp"], "train.activation_checkpointing", False)
    recipe = with_key(recipe, "hardware.gpu", "h200")
    plan = stage(tmp_path, recipe)
    value = {id: decision.value for id, decision in plan.decisions.items()}
    rows = value["examples"] * (1 - value["eval_fraction"] - value["test_fraction"]) * value["passes"]
    times = 1 + round(1 / value["eval_every"])
    looked_at = min(value["eval_samples"], value["examples"] * value["eval_fraction"])
    expected = times * looked_at / rows * seconds(plan)["training steps"] / 3
    assert seconds(plan)["evaluations"] == pytest.approx(expected, rel=0.05)


def test_evaluate_py_does_not_wait_for_the_network(tmp_path: Path) -> None:
    """The ranks of the training exchange weights in each pass; evaluate.py runs on one node, without them."""
    nodes = {"gpu": "rtx-4090", "gpus_per_node": 8, "nodes": 2, "host_memory_gib": 4_000}
    recipe = with_key(with_key(BASES["lora-single"], "hardware", nodes), "train.strategy", "zero3")
    recipe = with_key(recipe, "model.name", "meta-llama/Llama-3.3-70B-Instruct")
    slow, fast = (stage(tmp_path, with_key(recipe, "hardware.network_gbps", rate)) for rate in (100, 400))
    assert slow.layout == fast.layout and slow.layout.mesh.world_size == 16
    assert slow.seconds > 1.2 * fast.seconds
    assert seconds(slow)["scoring"] == pytest.approx(seconds(fast)["scoring"])


@pytest.mark.parametrize("gpus", [1, 4])
def test_answers_are_written_once_to_each_prompt_that_is_looked_at(tmp_path: Path, gpus: int) -> None:
    """As long as the generations of training, which write as many answers at once as an evaluation here."""
    recipe = with_key(with_key(BASES["grpo"], "train.global_batch_size", 32 * gpus), "hardware.gpus_per_node", gpus)
    recipe = with_key(recipe, "train.strategy", "ddp") if gpus > 1 else recipe
    plan = stage(tmp_path, with_key(recipe, "alignment.variant", "dr_grpo"))
    value = {id: decision.value for id, decision in plan.decisions.items()}
    assert plan.time is not None and value["eval_samples"] == 128 and value["eval_batch_size"] == 32
    times = 1 + ceil(1 / value["eval_every"])
    assert seconds(plan)["evaluations"] == pytest.approx(times * 4 / gpus * plan.time.terms["generation"], rel=0.01)
    (scored,) = (part for part in plan.parts if part.name == "scoring")
    assert scored.seconds > 2 * plan.time.terms["generation"]
    batches = 4 / gpus  # of 32; evaluate.py writes more than them at once
    assert gpus == 4 or scored.seconds < 2 * batches * plan.time.terms["generation"]


def test_longer_answers_of_evaluate_take_it_longer(tmp_path: Path) -> None:
    plans = [stage(tmp_path, with_key(BASES["grpo"], "evaluate.max_new_tokens", tokens)) for tokens in (256, 2048)]
    short, long = map(seconds, plans)
    assert long["evaluations"] == short["evaluations"]
    assert long["scoring"] - 2 * 15 > 5 * (short["scoring"] - 2 * 15)


def test_a_text_part_is_taken_out_of_what_was_downloaded(tmp_path: Path) -> None:
    plan = stage(tmp_path, with_key(BASES["lora-single"], "model.name", "google/gemma-3-4b-it"))
    parts = {part.name: part.because for part in plan.parts}
    assert parts["download"].startswith("8.0 GiB") and parts["text part"].startswith("7.2 GiB")
    assert "checkpoint of 8.0 GiB" in parts["text part"]


def test_a_model_with_new_tokens_is_written_once(tmp_path: Path) -> None:
    recipes = [BASES["lora-single"], with_key(BASES["lora-single"], "model.new_tokens", ["<|new|>"])]
    (parts, plain), (extended, grown) = (
        ({part.name: part.because for part in plan.parts}, plan.needs.storage.total_bytes)
        for plan in (stage(tmp_path, recipe) for recipe in recipes)
    )
    assert extended["download"] == parts["download"] and "new tokens" not in parts
    assert extended["new tokens"].startswith("15.3 GiB") and 15.25 < (grown - plain) / GIB < 15.35


def test_few_rows_are_prepared_by_one_process_and_many_by_the_cores(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "hardware.cpu_cores", 8), "data.tokens_per_example", 500)
    seconds_of = [
        seconds(stage(tmp_path, with_key(recipe, "data.examples", rows))) for rows in (4_000, 40_000, 400_000)
    ]
    few, some, many = (found["data preparation"] - 15 for found in seconds_of)  # without the start
    alone = 1.2e-4 * 4_000  # splits and writing, in one process
    assert some == pytest.approx(10 * ((few - alone) / 8 + alone)) and many == pytest.approx(10 * some)


def test_other_ranks_wait_for_the_rows_as_long_as_they_take(tmp_path: Path) -> None:
    """Eighty billion tokens take one rank and its disk hours; for few its default of half an hour is enough."""
    recipe = with_key(BASES["full-fsdp"], "data.tokens_per_example", 400)
    for rows, expected in ((250_000, None), (200_000_000, "ddp_timeout=32400")):
        files = compiled(tmp_path, with_key(recipe, "data.examples", rows)).files
        (train,) = (file.text for file in files if file.path == "train.py")
        assert (expected in train) if expected else ("ddp_timeout" not in train)


def test_other_ranks_wait_for_saves_that_a_slow_disk_takes_long_for(tmp_path: Path) -> None:
    """Rank 0 alone writes the fp32 weights of a 70B before step 1: at the slowest published rate, half an hour."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4}
    recipe = with_key(with_key(BASES["full-fsdp"], "hardware", hardware), "model.name", "meta-llama/Llama-3.1-70B")
    found = compiled(tmp_path, recipe)
    (train,) = (file.text for file in found.files if file.path == "train.py")
    needs = found.plan.stages[0].needs
    assert needs.saving_seconds == needs.storage.tried_bytes / 1e9  # so short a run writes no checkpoint
    (waits,) = re.findall(r"ddp_timeout=(\d+),  # seconds that the other ranks wait for a save", train)
    assert needs.saving_seconds * 8 <= int(waits) < needs.saving_seconds * 8 + 3600


@pytest.mark.parametrize("nodes", [1, 4])
def test_nodes_wait_for_the_model_that_another_one_downloads(tmp_path: Path, nodes: int) -> None:
    """Nodes without a shared cache have 405B parameters from the Hub each: two hours at the slowest published rate."""
    hardware = {"gpu": "h200", "gpus_per_node": 8, "nodes": nodes}
    recipe = with_key(with_key(BASES["lora-single"], "hardware", hardware), "model.name", "meta-llama/Llama-3.1-405B")
    found = compiled(tmp_path, recipe)
    (train,) = (file.text for file in found.files if file.path == "train.py")
    waits = re.findall(r"ddp_timeout=(\d+),  # seconds that the other ranks wait for a node's download", train)
    seconds = found.plan.stages[0].downloading_seconds * 3
    assert seconds > 1_800 and [seconds <= int(each) < seconds + 3600 for each in waits] == [True] * (nodes > 1)


@pytest.mark.parametrize(("tokens", "waits"), [(64, False), (16_384, True)])
def test_other_ranks_wait_for_long_answers(tmp_path: Path, tokens: int, waits: bool) -> None:
    """The rank whose answers end last may take far longer than the limits of torch and transformers."""
    recipe = with_key(with_key(BASES["grpo"], "hardware.gpus_per_node", 4), "data.max_length", 256)
    recipe = with_key(recipe, "alignment.generation.max_new_tokens", tokens)
    files = {file.path: file.text for file in compiled(tmp_path, recipe).files}
    assert ("seconds that the other ranks wait for answers" in files["train.py"]) is waits
    assert ("timeout=patience" in files["evaluate.py"]) is waits


def test_what_several_stages_share_is_counted_once(tmp_path: Path) -> None:
    """prepare_data.py starts once, and the base model lies on the disk once."""
    sft, dpo = (stage(tmp_path, BASES["sft-dpo"], index) for index in (0, 1))
    alone = stage(tmp_path, without(BASES["sft-dpo"], "data.train"))
    assert seconds(alone)["data preparation"] == pytest.approx(seconds(dpo)["data preparation"] + 15)
    assert alone.needs.storage.hub_cache_bytes == sft.needs.storage.hub_cache_bytes > 0
    assert dpo.needs.storage.hub_cache_bytes == 0 and "download" not in seconds(dpo)


def test_the_bill_says_which_rates_are_assumed_and_which_were_measured(tmp_path: Path) -> None:
    parts = {part.name: part.because for part in stage(tmp_path, BASES["full-fsdp"]).parts}
    assert " saved at an assumed 1 GB/s; no checkpoint" in parts["the result"]
    assert parts["download"].endswith(" from the Hub at an assumed 0.3 GB/s, once")
    assert checkpoints(3, 10**9, Rates()).because.endswith(" each at an assumed 1 GB/s")
    rates = replace(Rates(), written_bytes_per_second=2.5e9, measured=frozenset({"written_bytes_per_second"}))
    assert checkpoints(3, 10**9, rates).because.endswith(" each at a measured 2.5 GB/s")


def test_what_failures_repeat_is_in_the_bill_of_long_runs_on_many_gpus(tmp_path: Path) -> None:
    recipe = with_key(BASES["pretrain"], "data.examples", 2_000_000_000)
    recipe = with_key(recipe, "model.name", "meta-llama/Llama-3.1-8B")
    short = stage(tmp_path, BASES["pretrain"])
    many = stage(tmp_path, with_key(recipe, "hardware", NODES))
    assert "failures" not in seconds(short)
    (part,) = [part for part in many.parts if part.name == "failures"]
    hours = seconds(many)["training steps"] / 3600 * many.layout.mesh.world_size
    assert part.because.startswith(f"{hours / 50_700:.2g} expected on ")
    saves = int(next(part for part in many.parts if part.name == "checkpoints").because.split()[0].replace(",", ""))
    between = seconds(many)["training steps"] / saves
    assert part.seconds >= hours / 50_700 * between / 2 * 0.99


def test_a_failure_repeats_half_of_what_lies_between_two_saves_and_a_start() -> None:
    rates = replace(Rates(), start_seconds=100.0)
    (once, twice) = (failures(expected, 600.0, 64, 0, rates).seconds for expected in (1.0, 2.0))
    assert once == pytest.approx(600 / 2 + 100) and twice == 2 * once
    assert failures(1.0, 600.0, 64, 10**12, rates).seconds > once


def test_many_processes_wait_for_the_disk_that_they_write_to() -> None:
    """Few tokens a second are computed in one process; 64 of them compute more than 1 GB/s takes."""
    rows, rates = Rows(count=10**6, tokens_each=1000, evaluated=1, tested=1, read=10**6), rates_of(None)
    one, many = (tokenization(rows, processes, rates, 45) for processes in (1, 64))
    read = 4.2e9 / 0.32e9  # once, in one process
    assert one.seconds == pytest.approx(read + 1e9 * rates.seconds_per_token) and "writes" not in one.because
    assert many.seconds == pytest.approx(read + 45.0) and "writes 41.9 GiB at an assumed 1 GB/s" in many.because


def test_the_rows_are_read_in_one_process_before_many_tokenize_them() -> None:
    few, many = (Rows(count=n, tokens_each=1000, evaluated=1, tested=1, read=n) for n in (10**6, 10**8))
    assert tokenization(few, 64, rates_of(None), 0).because == "the trainer, in 64 processes"
    told = tokenization(many, 64, rates_of(None), 0).because
    assert told == "the trainer, in 64 processes, after 22 min in which one reads them"


def test_every_rank_evaluates_one_full_batch_at_least(tmp_path: Path) -> None:
    """Rows are repeated until each rank has full batches: 100 rows are one batch of 16 on 8 ranks, and on 32."""
    recipe = with_key(with_key(BASES["lora-single"], "data.examples", 1_000), "train.adaptation", "lora")
    recipe = with_key(with_key(recipe, "train.global_batch_size", 32), "train.strategy", "zero1")
    hardware = {"gpu": "h100", "gpus_per_node": 8, "network_gbps": 3200}
    plans = [good(tmp_path, with_key(recipe, "hardware", {**hardware, "nodes": nodes})) for nodes in (1, 4)]
    few, many = (each.plan.stages[0] for each in plans)
    assert [each.layout.mesh.data_parallel for each in (few, many)] == [8, 32]
    assert [each.value("eval_batch_size") for each in (few, many)] == [16, 16]
    assert seconds(many)["evaluations"] == pytest.approx(seconds(few)["evaluations"], rel=0.05)
    forward = (
        forward_share(plans[0].facts.model.architecture, few.layout, few.work, few.time.terms)
        * few.time.seconds_per_step
        / few.layout.micro_batch
    )
    assert seconds(few)["evaluations"] / 6 == pytest.approx(16 * forward, rel=0.2)


def test_an_evaluation_on_several_ranks_asks_the_teacher_too(tmp_path: Path) -> None:
    """Two ranks halve it, as they halve a step: a teacher of 14B takes most of either."""
    recipe = with_key(BASES["distill"], "alignment.teacher", "Qwen/Qwen2.5-14B-Instruct")
    one, two = (
        stage(tmp_path, with_key(recipe, "hardware", {"gpu": "h200", "gpus_per_node": gpus})) for gpus in (1, 2)
    )
    assert two.layout.mesh.data_parallel == 2
    assert seconds(two)["evaluations"] > 0.4 * seconds(one)["evaluations"]


@pytest.mark.parametrize("gpus", [1, 2])
def test_an_evaluation_takes_at_least_what_the_teacher_takes_of_its_rows_in_training(tmp_path: Path, gpus: int) -> None:
    """A teacher runs forward alone, in training and in evaluations."""
    recipe = with_key(BASES["distill"], "alignment.teacher", "Qwen/Qwen3-32B")
    found = stage(tmp_path, with_key(recipe, "hardware", {"gpu": "h200", "gpus_per_node": gpus}))
    (part,) = (part for part in found.parts if part.name == "evaluations")
    times, rows = map(int, re.findall(r"(\d+) evaluations of (\d+) rows", part.because)[0])
    taught = found.time.terms["teacher"] / found.layout.global_batch * rows
    assert seconds(found)["evaluations"] / times > taught


def test_rows_that_fill_a_batch_of_each_rank_are_one_batch(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "data.examples", 960), "data.eval_fraction", 0.1)
    recipe = with_key(with_key(recipe, "train.strategy", "zero1"), "data.test_fraction", 0.12)
    recipe = with_key(with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 8}), "train.global_batch_size", 48)
    found = stage(tmp_path, recipe)
    ranks, size = found.layout.mesh.data_parallel, found.value("eval_batch_size")
    assert ranks * size == 96 and found.steps * 48 > 960 - 96 - 115, "the case shows nothing"
    fewer = stage(tmp_path, with_key(recipe, "data.examples", 900))
    assert seconds(found)["evaluations"] == pytest.approx(seconds(fewer)["evaluations"], rel=0.05)


@pytest.mark.parametrize(("source", "told"), [({"hub": "org/rows"}, True), ("chat.jsonl", False)])
def test_the_download_of_rows_is_named_where_it_is_not_counted(tmp_path: Path, source: object, told: bool) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "data.train", source), "data.format", "chat")
    (part,) = (part for part in stage(tmp_path, recipe).parts if part.name == "data preparation")
    assert part.because.endswith("; their download from the Hub is not counted") is told


def test_the_save_that_is_tried_holds_the_weights_as_they_train(tmp_path: Path) -> None:
    """Full fine-tuning trains fp32 weights, which are rounded to bf16 for the result alone."""
    disk = stage(tmp_path, BASES["full-fsdp"]).needs.storage
    assert disk.tried_bytes == pytest.approx(2 * disk.export_bytes, rel=0.01)
    written = {part.name: part.seconds for part in stage(tmp_path, BASES["full-fsdp"]).parts}["loading"]
    read = stage(tmp_path, BASES["full-fsdp"]).needs.read_bytes
    assert written == pytest.approx(Rates().start_seconds + (read + disk.tried_bytes) / 1e9)
    adapter = stage(tmp_path, BASES["lora-single"]).needs.storage
    assert adapter.tried_bytes == adapter.export_bytes
