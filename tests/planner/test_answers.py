"""What a plan answers: the batch that it runs, the GPUs that it uses, and advice that holds when it is followed."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, OF_METHOD, Tables, codes, compiled, good, texts, with_key, without

from recipec.axes import METHODS
from recipec.cli.plan import plan_text
from recipec.planner.advice.changes import within
from recipec.planner.advice.rejected import _obstacle
from recipec.planner.plan import StagePlan
from recipec.planner.search.bounds import TIE
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.preference import nearest_of
from recipec.recipe.schema import Policy

LONG = {"data.max_length": 32768, "data.tokens_per_example": 16000, "train.packing": False}


def changed(base: str, keys: Tables) -> Tables:
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    return recipe


def stage(folder: Path, base: str, **keys: object) -> StagePlan:
    return stage_of(folder, changed(base, {key.replace("__", "."): value for key, value in keys.items()}))


def stage_of(folder: Path, recipe: Tables) -> StagePlan:
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan
    return plan.stages[0]


def test_one_row_at_a_time_where_a_mask_between_rows_costs_more(tmp_path: Path) -> None:
    recipe = changed("lora-single", {**LONG, "hardware.gpu": "h200", "train.global_batch_size": 32})
    free, two = (with_key(recipe, "train.micro_batch_size", size) if size else recipe for size in (None, 2))
    chosen, pinned = (compiled(tmp_path, each, only_plan=True).plan for each in (free, two))
    assert chosen and pinned
    assert chosen.stages[0].layout.micro_batch == 1
    assert chosen.seconds < pinned.seconds


@pytest.mark.parametrize("batch", [45, 48, 60, 63])
def test_a_batch_need_not_be_a_power_of_two(tmp_path: Path, batch: int) -> None:
    rows = {"train.global_batch_size": batch, "hardware.gpu": "rtx-4090", "train.adaptation": "lora"}
    layout = stage(tmp_path, "lora-single", **{key.replace(".", "__"): value for key, value in rows.items()}).layout
    assert layout.global_batch == batch
    assert layout.micro_batch > 1


def test_memory_does_not_make_a_plan_slower_nor_leave_gpus_idle(tmp_path: Path) -> None:
    """More memory lets one GPU hold what two must share with activations in host memory: both still work."""
    keys = {**LONG, "model.name": "Qwen/Qwen3-32B", "train.adaptation": "qlora", "hardware.gpus_per_node": 8}
    found = []
    for size in (48, 56, 64, 80, 96):
        hardware = {"vram_gib": size, "gpus_per_node": 8, "host_memory_gib": 2000}
        plan = compiled(tmp_path, with_key(changed("lora-single", keys), "hardware", hardware), only_plan=True).plan
        found += [plan.stages[0]] if plan else []
    assert len(found) >= 3
    assert all(plan.layout.mesh.world_size == 8 for plan in found)
    assert all(larger.seconds <= 1.3 * smaller.seconds for smaller, larger in pairwise(found))


def test_a_base_that_all_cards_share_in_4_bits_is_taken_where_it_is_faster(tmp_path: Path) -> None:
    """LoRA fits three cards with states in host memory alone; a 4-bit base that they share leaves those on them."""
    keys = {"model.name": "Qwen/Qwen3-32B", "data.max_length": 2048, "data.tokens_per_example": 1024}
    hardware = {"vram_gib": 24, "gpus_per_node": 3, "gpu_link": "nvlink", "host_memory_gib": 2000}
    recipe = with_key(changed("lora-single", keys), "hardware", hardware)
    layout = good(tmp_path, with_key(recipe, "train", {"global_batch_size": 64})).plan.stages[0].layout
    assert (layout.adapts.family, layout.quantization, layout.mesh.world_size) == ("lora", "nf4", 3)
    assert layout.strategy == "fsdp" and layout.on_device


def test_what_the_rules_prefer_is_taken_where_it_is_also_faster(tmp_path: Path) -> None:
    """Of a reward model no 4-bit base is shared: each card would dequantize all of it for a few short rows."""
    keys = {"model.name": "Qwen/Qwen3-14B", "data.max_length": 512, "data.tokens_per_example": 128}
    hardware = {"gpu": "rtx-3060-12gb", "gpus_per_node": 4, "host_memory_gib": 256}
    recipe = with_key(with_key(changed("reward", keys), "hardware", hardware), "train", {"global_batch_size": 64})
    taken, qlora = (stage_of(tmp_path, each) for each in (recipe, with_key(recipe, "train.adaptation", "qlora")))
    assert (taken.layout.adaptation, taken.layout.strategy, taken.layout.offload) == ("lora", "zero3", "cpu")
    assert qlora.layout.activation_offload and (1 + TIE) * taken.seconds < qlora.seconds


def test_what_the_rules_prefer_is_not_taken_where_it_is_hardly_faster(tmp_path: Path) -> None:
    """LoRA with states in host memory is predicted a little faster than QLoRA: less than the estimates can tell."""
    keys = {"model.name": "Qwen/Qwen3-14B", "data.max_length": 2048, "data.tokens_per_example": 1024}
    hardware = {"vram_gib": 16, "gpus_per_node": 3, "gpu_link": "nvlink", "host_memory_gib": 2000}
    recipe = with_key(with_key(changed("lora-single", keys), "hardware", hardware), "train", {"global_batch_size": 64})
    taken = stage_of(tmp_path, recipe)
    lora = stage_of(tmp_path, with_key(with_key(recipe, "train.adaptation", "lora"), "train.quantization", "none"))
    assert taken.seconds / (1 + TIE) < lora.seconds < taken.seconds, "the case shows nothing"
    assert taken.layout.adaptation == "qlora"


def test_what_is_run_is_what_the_bundle_says(tmp_path: Path) -> None:
    recipe = changed("lora-single", {"hardware.gpu": "h100", "hardware.gpus_per_node": 8})
    built = good(tmp_path, with_key(recipe, "train.global_batch_size", 12))
    assert built.plan
    runs = built.plan.stages[0].layout.global_batch
    assert built.plan.stages[0].decisions["global_batch_size"].value == runs
    assert f'"global_batch_size": {runs}' in texts(built)["registry/entry.json"]
    assert ("W0510" in codes(built)) == (runs != 12)


def test_processes_of_a_cpu_share_its_memory(tmp_path: Path) -> None:
    one, four = (
        stage(tmp_path, "cpu", hardware__gpus_per_node=count, hardware__host_memory_gib=64) for count in (1, 4)
    )
    assert four.capacity_bytes * 4 == one.capacity_bytes
    assert four.needs.host.needed_bytes <= one.capacity_bytes


def test_ways_out_keep_to_the_policy_and_to_the_data(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[policy]\nmax_gpus = 1\n")
    keys = {
        "model.name": "meta-llama/Llama-3.1-70B-Instruct",
        "hardware.gpu": "rtx-4090",
        "recipe.extends": "team.toml",
    }
    keys |= {"data.tokens_per_example": 900, "data.examples": 20_000}
    (problem,) = [
        found for found in compiled(tmp_path, changed("lora-single", keys)).diagnostics if found.code == "E0402"
    ]
    assert problem.help and not any("gpus_per_node" in way or "nodes" in way for way in problem.help)
    assert all(int(length) >= 1800 for way in problem.help for length in re.findall(r"max_length = (\d+)", way))


def test_every_stage_fits_with_a_way_out(tmp_path: Path) -> None:
    keys = {"hardware.gpu": "rtx-4090", "hardware.gpus_per_node": 1, "train.adaptation": "full"}
    recipe = changed("sft-dpo", keys)
    found = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402"]
    ways = {way.partition("`:")[0] for problem in found for way in problem.help if "hardware.gpu = " in way}
    assert found and ways
    for way in ways:
        card = way.partition('"')[2].rstrip('"')
        assert compiled(tmp_path, with_key(recipe, "hardware.gpu", card), only_plan=True).plan is not None


def test_a_budget_names_the_plan_that_keeps_to_it(tmp_path: Path) -> None:
    """Where speed is not what the rules ask for, a slower choice has faster alternatives."""
    recipe = changed("lora-ddp", {"train.adaptation": "lora"})
    plan = good(tmp_path, recipe).plan
    assert plan
    slower = with_key(with_key(recipe, "train.strategy", "auto"), "budget.max_hours", 0.99 * plan.seconds / 3600)
    (problem,) = [found for found in compiled(tmp_path, slower).diagnostics if found.code == "E0403"]
    named = re.findall(r'train\.(\w+) = "(\w+)"', problem.help[0])
    open_rows = [other for other in plan.stages[0].rejected if other.seconds is not None]
    faster = [other for other in open_rows if other.seconds < 0.95 * plan.stages[0].seconds]
    assert bool(named) == bool(faster)
    for key, value in named:
        slower = with_key(slower, f"train.{key}", value)
    if named:
        assert "E0403" not in codes(compiled(tmp_path, slower))


@pytest.mark.parametrize(("factor", "refused"), [(0.999, True), (1.001, False)])
def test_gpu_hours_are_those_of_all_gpus_idle_ones_too(tmp_path: Path, factor: float, refused: bool) -> None:
    recipe = changed("lora-single", {"hardware.gpus_per_node": 4, "train.global_batch_size": 2})
    plan = good(tmp_path, recipe).plan
    assert plan and plan.stages[0].layout.mesh.world_size == 2
    limited = with_key(recipe, "budget.max_gpu_hours", factor * 4 * plan.seconds / 3600)
    assert ("E0403" in codes(compiled(tmp_path, limited))) is refused


@pytest.mark.parametrize(
    ("key", "value", "page"), [("hardware.nvme", True, "NOT-019"), ("goal.style", True, "NOT-020")]
)
def test_what_has_no_key_leads_to_its_page(tmp_path: Path, key: str, value: bool, page: str) -> None:
    [finding] = compiled(tmp_path, changed("lora-single", {key: value})).diagnostics
    assert finding.code == "E0203" and any(page in line for line in finding.help)


def test_what_the_rules_do_not_prefer_has_to_be_asked_for(tmp_path: Path) -> None:
    better = stage(tmp_path, "lora-single", hardware__gpu="rtx-4090").next_better
    assert better and better.what == "full fine-tuning with 8-bit optimizer states"
    assert better.asks == 'set `train.adaptation = "full"`'


def test_what_would_contradict_the_recipe_is_not_advised(tmp_path: Path) -> None:
    """A table that shapes adapters leaves full fine-tuning out."""
    assert stage(tmp_path, "lora-single", hardware__gpu="rtx-4090", train__lora__rank=8).next_better is None


def test_short_rows_on_many_ranks_have_a_time(tmp_path: Path) -> None:
    """A row may have fewer tokens than ranks could share."""
    recipe = changed("lora-single", {"data.tokens_per_example": 1, "hardware.gpus_per_node": 8, "hardware.nodes": 4})
    assert stage_of(tmp_path, recipe).seconds > 0


@pytest.mark.parametrize(("nodes", "allowed"), [(1, True), (2, False)])
def test_a_policy_counts_the_gpus_of_all_nodes(tmp_path: Path, nodes: int, allowed: bool) -> None:
    plan = compiled(tmp_path, with_key(BASES["full-fsdp"], "hardware.nodes", nodes), only_plan=True)
    assert plan.facts
    context = SimpleNamespace(facts=plan.facts)
    assert within(context, Policy(max_gpus=8)) is allowed  # type: ignore[arg-type]


def test_activations_of_large_models_are_kept_where_they_fit(tmp_path: Path) -> None:
    """Above 7B too: what the rule book does without computing what fits is no reason to take a third longer."""
    recipe = changed("pretrain", {"model.name": "meta-llama/Llama-3.1-8B", "hardware.gpu": "h200"})
    recipe = with_key(recipe, "hardware.gpus_per_node", 8)
    chosen = stage_of(tmp_path, recipe)
    assert chosen.decisions["checkpointing_default"].value and not chosen.layout.checkpointing
    asked = stage_of(tmp_path, with_key(recipe, "train.activation_checkpointing", True))
    assert asked.layout.checkpointing and asked.seconds >= chosen.seconds


def test_recomputation_that_only_the_priority_asks_for_is_told(tmp_path: Path) -> None:
    recipe = changed("pretrain", {"model.name": "meta-llama/Llama-3.1-8B", "hardware.gpu": "h200"})
    recipe = with_key(with_key(recipe, "hardware.gpus_per_node", 8), "goal.priority", "memory")
    recipe = with_key(with_key(recipe, "train.strategy", "fsdp"), "train.optimizer", "adamw")
    (kept,) = [other for other in stage_of(tmp_path, recipe).rejected if not other.layout.checkpointing]
    assert kept.seconds is not None and "memory first" in kept.reason
    free = stage_of(tmp_path, with_key(recipe, "train.activation_checkpointing", False))
    assert free.seconds <= kept.seconds * 1.25
    asked = stage_of(tmp_path, with_key(recipe, "train.activation_checkpointing", True))
    assert all(other.layout.checkpointing for other in asked.rejected), "the recipe wants it"


@pytest.mark.parametrize("base", ["lora-single", "full-fsdp", "sft-dpo", "pretrain"])
def test_what_a_decision_was_made_from_was_decided(tmp_path: Path, base: str) -> None:
    for plan in good(tmp_path, BASES[base]).plan.stages:
        named = {name for decision in plan.decisions.values() for name in decision.inputs}
        assert named <= plan.decisions.keys()


@pytest.mark.parametrize(
    ("key", "value"),
    [("train.global_batch_size", 64), ("train.epochs", 5), ("data.examples", 9_000), ("train.micro_batch_size", 3)],
)
def test_what_changes_the_steps_is_named_as_their_reason(tmp_path: Path, key: str, value: int) -> None:
    before, after = (stage_of(tmp_path, recipe) for recipe in (BASES["qlora"], with_key(BASES["qlora"], key, value)))
    named = before.decisions["total_steps"].inputs
    changed = {name for name in named if before.value(name) != after.value(name)}
    assert (before.value("total_steps") != after.value("total_steps")) == bool(changed)


def test_what_changes_the_reason_of_the_micro_batch_is_named(tmp_path: Path) -> None:
    """The reason has the predicted peak, which falls when fewer layers keep what they computed."""
    found = [stage(tmp_path, "lora-single", train__recompute_every=every) for every in (1, 8)]
    few, many = (plan.decisions["micro_batch_size"] for plan in found)
    assert few.because != many.because and "recompute_every" in few.inputs


def test_the_document_has_the_cost_in_cents(tmp_path: Path) -> None:
    found = good(tmp_path, BASES["lora-ddp"])
    assert found.plan.stages[0].cost_usd is not None
    cost = json.loads(found.plan_json)["stages"][0]["cost"]["usd"]
    assert cost == round(cost, 2) == pytest.approx(found.plan.stages[0].cost_usd, abs=0.005)


def test_a_decay_of_sgd_takes_memory(tmp_path: Path) -> None:
    train = {"adaptation": "full", "optimizer": "sgd", "micro_batch_size": 1}
    none, some = (
        stage_of(tmp_path, changed("dpo-full", {"train": {**train, "weight_decay": decay}})) for decay in (0.0, 0.1)
    )
    assert some.memory.moments["optimizer_step"] > none.memory.moments["optimizer_step"]


def test_a_layout_that_lacks_gpu_memory_is_nearer_than_one_that_lacks_host_memory(tmp_path: Path) -> None:
    layout = stage(tmp_path, "lora-single").layout
    host = Candidate("sft", layout, None, None, over_bytes=-1, host_bytes=0, obstacle="needs host memory")
    gpu = Candidate("sft", layout, None, None, over_bytes=10, host_bytes=0)
    assert nearest_of([host, gpu]) is gpu
    assert _obstacle(host, 24.0, "GPU") == f"{host.adaptation} needs host memory"


def test_what_a_pin_rules_out_is_told(tmp_path: Path) -> None:
    """The rules would rather have adapters, which shared sequences rule out."""
    recipe = changed("lora-single", {"hardware.gpus_per_node": 8, "train.context_parallel": 2})
    plan = stage_of(tmp_path, recipe)
    assert plan.layout.adaptation == "full"
    (lora,) = [other for other in plan.rejected if other.family == "LoRA"]
    assert "not supported" in lora.reason and "BAD-021" in lora.reason and lora.peak_allocated_bytes is None
    text = plan_text(json.loads(compiled(tmp_path, recipe, only_plan=True).plan_json))
    assert "cannot write shared layers yet (E0410)" in text
    assert re.search(r"LoRA +- +- +- +not supported", text)


def test_a_budget_may_be_kept_to_by_keeping_activations(tmp_path: Path) -> None:
    recipe = with_key(changed("pretrain", {"model.name": "meta-llama/Llama-3.1-8B"}), "hardware.gpu", "h200")
    recipe = with_key(with_key(recipe, "hardware.gpus_per_node", 8), "train.strategy", "fsdp")
    recipe = with_key(with_key(recipe, "goal.priority", "memory"), "train.optimizer", "adamw")
    plan = stage_of(tmp_path, recipe)
    (kept,) = [other for other in plan.rejected if not other.layout.checkpointing]
    assert kept.seconds is not None
    beside_steps = plan.run_seconds - plan.seconds
    limited = with_key(recipe, "budget.max_hours", ((kept.seconds + plan.seconds) / 2 + beside_steps) / 3600)
    (problem,) = [found for found in compiled(tmp_path, limited).diagnostics if found.code == "E0403"]
    assert "train.activation_checkpointing = false" in problem.help[0]
    kept_to = with_key(limited, "train.activation_checkpointing", False)
    assert "E0403" not in codes(compiled(tmp_path, kept_to))


@pytest.mark.parametrize(
    ("keys", "warned"), [({}, True), ({"train.max_steps": 5}, False), ({"train.sft.max_steps": 5}, False)]
)
def test_few_steps_that_the_recipe_sets_are_no_surprise(tmp_path: Path, keys: Tables, warned: bool) -> None:
    recipe = changed("lora-single", {"data.examples": 64, **keys})
    assert ("W0508" in codes(compiled(tmp_path, recipe, only_plan=True))) is warned


@pytest.mark.parametrize("stages", [False, True])
def test_the_batch_that_is_advised_for_few_prompts_is_learned(tmp_path: Path, stages: bool) -> None:
    """Also where several steps share a generation, and where the batch is that of one stage of several."""
    recipe = with_key(with_key(BASES["grpo"], "data.examples", 60), "alignment.variant", "gspo")
    if stages:
        recipe = with_key(without(BASES["ppo"], "alignment.reward"), "data.preferences", "pairs.jsonl")
        recipe = with_key(recipe, "data.examples", 60)
    told = (each for each in compiled(tmp_path / "few", recipe).diagnostics if each.code == "E0411")
    (found,) = (each for each in told if "prompts" in each.notes[0])
    key, batch = re.match(r"lower `(train\S*\.global_batch_size)` to (\d+) or less", found.help[0]).groups()
    assert key == ("train.ppo.global_batch_size" if stages else "train.global_batch_size")
    mended = compiled(tmp_path / "mended", with_key(recipe, key, int(batch)))
    assert not [each for each in mended.diagnostics if each.code == "E0411" and "prompts" in each.notes[0]]


def test_too_few_prompts_are_not_told_as_few_steps_as_well(tmp_path: Path) -> None:
    found = codes(compiled(tmp_path, with_key(BASES["grpo"], "data.examples", 10)))
    assert "E0411" in found and "W0508" not in found


def test_few_steps_of_answers_are_counted_in_answers(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["grpo"], "data.examples", 150), "train.epochs", 1)
    (found,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code == "W0508")
    assert re.search(
        r"\d+ prompts with \d+ answers each and a global batch of \d+ answers give", found.labels[0].message
    )


@pytest.mark.parametrize(("steps", "told"), [(1, False), (50, True)])
def test_no_warmup_is_accepted_where_it_is_the_way_out(tmp_path: Path, steps: int, told: bool) -> None:
    """A single step with a warmup learns nothing, and E0411 advises to leave it out."""
    recipe = with_key(with_key(BASES["lora-single"], "train.max_steps", steps), "train.warmup", 0)
    assert ("W0501" in codes(compiled(tmp_path, recipe, only_plan=True))) is told


WRITING = [name for name in OF_METHOD if METHODS[name].generates and not METHODS[name].has_value_head]


@pytest.mark.parametrize("base", WRITING)  # a value head is trained on whole weights alone
def test_weights_in_host_memory_do_not_keep_a_stage_from_writing(tmp_path: Path, base: str) -> None:
    """evaluate.py writes its answers alone, with everything on its device."""
    keys = {"hardware.gpus_per_node": 2, "train.strategy": "zero1", "train.offload": "cpu"}
    keys |= {"train.adaptation": "full"}
    done = compiled(tmp_path, changed(OF_METHOD[base], keys), only_plan=True)
    assert done.plan and done.plan.stages[-1].layout.offloads, [found.title for found in done.diagnostics]


def test_evaluate_py_writes_as_fast_as_transformers_whatever_writes_in_training(tmp_path: Path) -> None:
    of_script, of_training = [], []
    for engine in ("transformers", "vllm"):
        plan = stage(tmp_path, "grpo", alignment__generation__engine=engine, train__adaptation="lora")
        looks = {part.name: part.seconds for part in plan.parts}
        of_script.append(looks["scoring"])
        of_training.append(looks["evaluations"])
    assert of_script[0] == pytest.approx(of_script[1], rel=0.05)
    assert of_training[0] > 2 * of_training[1]
