"""What cannot run, does not fit, costs too much or is risky: the code, and the place that it points at."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, with_key

from recipec.diagnostics.codes import explain

LORA, FSDP, DPO, TEXT = (BASES[name] for name in ("lora-single", "full-fsdp", "dpo-full", "text"))
SCRATCH = BASES["pretrain"]
GPUS4 = with_key(LORA, "hardware.gpus_per_node", 4)
EXPERTS = with_key(with_key(LORA, "model.name", "Qwen/Qwen3-30B-A3B"), "train.adaptation", "lora")
T4 = with_key(with_key(LORA, "model.name", "Qwen/Qwen2.5-0.5B"), "hardware.gpu", "t4")
Keys = dict[str, Any]

# Base and keys -> codes. W0501 beside an error is about the same value.
REFUSED: dict[str, tuple[Keys, Keys, str]] = {
    "does not fit": (LORA, {"model.name": "meta-llama/Llama-3.1-405B"}, "E0402"),
    "fixed micro batch does not fit": (LORA, {"train.micro_batch_size": 512, "train.global_batch_size": 512}, "E0402"),
    "host memory": (BASES["zero3-offload"], {"hardware.host_memory_gib": 16}, "E0402"),
    "an allowed warning that is not reached": (
        LORA,
        {"model.name": "meta-llama/Llama-3.1-405B", "recipe.allow": ["W0503"]},
        "E0402",
    ),
    "too many hours": (LORA, {"budget": {"max_hours": 0.001}}, "E0403"),
    "too many GPU hours": (GPUS4, {"budget": {"max_gpu_hours": 0.001}}, "E0403"),
    "too expensive": (LORA, {"budget": {"max_cost_usd": 0.01}}, "E0403"),
    "no price": (BASES["cpu"], {"budget": {"max_cost_usd": 1}}, "E0403"),
    "4-bit ZeRO-3": (GPUS4, {"train": {"adaptation": "qlora", "strategy": "zero3"}}, "E0405"),
    "8-bit base under FSDP": (GPUS4, {"train": {"adaptation": "lora-int8", "strategy": "fsdp"}}, "E0405"),
    "8-bit FSDP": (FSDP, {"train": {"optimizer": "adamw-8bit", "strategy": "fsdp"}}, "E0405"),
    "compiled ZeRO-3": (GPUS4, {"train": {"compile": True, "strategy": "zero3"}}, "E0405"),
    "flash attention": (LORA, {"train.attention": "flash_attention_2"}, "E0405"),
    "LoRA on the head": (LORA, {"train.adaptation": "lora", "train.lora": {"targets": ["lm_head"]}}, "E0405"),
    "dropout on experts": (EXPERTS, {"train.lora": {"targets": "all-linear", "dropout": 0.05}}, "E0405"),
    "varlen on an old GPU": (LORA, {"hardware.gpu": "v100-32gb", "train.attention": "torch_varlen"}, "E0405"),
    "varlen on a GPU by its memory": (LORA, {"hardware": {"vram_gib": 24}, "train.attention": "torch_varlen"}, "E0405"),
    "varlen in fp32": (LORA, {"train": {"precision": "fp32", "attention": "torch_varlen"}}, "E0405"),
    "varlen without packing": (LORA, {"train": {"packing": False, "attention": "torch_varlen"}}, "E0405"),
    "varlen of pairs": (DPO, {"train.attention": "torch_varlen"}, "E0405"),
    "varlen with sinks": (LORA, {"model.name": "openai/gpt-oss-20b", "train.attention": "torch_varlen"}, "E0405"),
    "varlen, capped scores": (LORA, {"model.name": "google/gemma-2-9b", "train.attention": "torch_varlen"}, "E0405"),
    "sdpa with capped scores": (LORA, {"model.name": "google/gemma-2-9b", "train.attention": "sdpa"}, "E0405"),
    "packing that leaks": (LORA, {"model.name": "openai/gpt-oss-20b", "train.packing": True}, "E0405"),
    "packing that leaks in sdpa": (LORA, {"model.name": "ibm-granite/granite-4.0-1b", "train.packing": True}, "E0405"),
    "eager packing": (LORA, {"train": {"packing": True, "attention": "eager"}}, "E0405"),
    "bf16 on a T4": (T4, {"train.precision": "bf16"}, "E0405"),
    "saving between evaluations": (LORA, {"train": {"save_every": 0.01, "eval_every": 0.05}}, "E0405"),
    "saving not a multiple": (LORA, {"train": {"save_every": 0.15, "eval_every": 0.1}}, "E0405"),
    "packed pairs": (DPO, {"train.packing": True}, "E0405"),
    "no stage is left": (DPO, {"alignment.method": "none"}, "E0401"),
    "DPO without pairs": (LORA, {"goal.task": "align", "alignment": {"method": "dpo"}}, "E0401"),
    "pretraining on conversations": (LORA, {"goal.task": "continue-pretrain"}, "E0401"),
    "random weights on conversations": (LORA, {"goal.task": "pretrain"}, "E0401"),
    "random weights and adapters": (SCRATCH, {"train.adaptation": "lora"}, "E0401"),
    "random weights in 4 bits": (SCRATCH, {"train.quantization": "nf4"}, "E0401"),
    "too many random weights": (SCRATCH, {"model.name": "Qwen/Qwen2.5-72B", "hardware.host_memory_gib": 512}, "E0402"),
    "conversations are not split": (LORA, {"data.overflow": "split"}, "E0401"),
    "dropout on experts by default": (EXPERTS, {"train.lora": {"dropout": 0.05}}, "E0405"),
    "rank of experts without adapters": (EXPERTS, {"train.lora": {"targets": "attention", "expert_rank": 2}}, "E0401"),
    "rank of experts of a dense model": (LORA, {"train.lora": {"expert_rank": 2}}, "E0401"),
    "experts of a dense model": (LORA, {"train.lora": {"targets": ["experts.down_proj"]}}, "E0401"),
    "the name of one expert's module": (EXPERTS, {"train.lora": {"targets": ["q_proj", "down_proj"]}}, "E0401"),
    "no module of that name": (LORA, {"train.lora": {"targets": ["nope"]}}, "E0401"),
}  # fmt: skip
WARNED: dict[str, tuple[Keys, Keys, str]] = {
    "learning rate": (LORA, {"train.learning_rate": 0.1}, "W0501"),
    "rank": (LORA, {"train.lora": {"rank": 512}}, "W0501"),
    "idle GPUs": (GPUS4, {"train.global_batch_size": 2}, "W0503"),
    "few tokens from random weights": (SCRATCH, {}, "W0506"),
    "packed rows in one long mask": (LORA, {"train": {"packing": True, "micro_batch_size": 2}}, "W0504"),
    "fp16 beside bf16": (LORA, {"train.precision": "fp16"}, "W0504"),
    "fp32 beside bf16": (LORA, {"train.precision": "fp32"}, "W0504"),
    "slow network": (FSDP, {"hardware.nodes": 2, "hardware.network_gbps": 24}, "W0519"),
    "few cores": (GPUS4, {"hardware.cpu_cores": 15}, "W0520"),
}


def _with(base: Keys, keys: Keys) -> Keys:
    for key, value in keys.items():
        base = with_key(base, key, value)
    return base


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    base, keys, code = REFUSED[case]
    found = compiled(tmp_path, _with(base, keys))
    assert [name for name in codes(found) if name.startswith("E")] == [code]
    assert not found.files


@pytest.mark.parametrize("case", WARNED)
def test_warned(tmp_path: Path, case: str) -> None:
    base, keys, code = WARNED[case]
    found = good(tmp_path, _with(base, keys))
    assert code in codes(found)
    allowed = good(tmp_path, with_key(_with(base, keys), "recipe.allow", [code]))
    assert code not in codes(allowed)


@pytest.mark.parametrize(
    ("base", "keys"),
    [
        (FSDP, {"hardware.nodes": 2, "hardware.network_gbps": 25}),
        (FSDP, {"hardware.nodes": 2}),  # assumed, and the plan says so
        (GPUS4, {"hardware.cpu_cores": 16}),
        (GPUS4, {}),  # not stated
        (BASES["cpu"], {"hardware.cpu_cores": 1}),  # the cores are the device
    ],
)
def test_enough_or_unstated_hardware_is_not_warned_about(tmp_path: Path, base: Keys, keys: Keys) -> None:
    assert not {"W0519", "W0520"} & {*codes(compiled(tmp_path, _with(base, keys), only_plan=True))}


_EXPOSED = "{share:.0%} of a step of stage sft is exposed communication"


@pytest.mark.parametrize(
    ("base", "keys", "says"),
    [
        (FSDP, {}, ["stage sft stays on one node"]),
        (
            FSDP,
            {"train": {"strategy": "hsdp", "global_batch_size": 32}},
            [_EXPOSED],
        ),
        (LORA, {}, []),  # on both nodes: gradients of adapters are few
    ],
)
def test_a_slow_network_is_told_with_what_it_costs(tmp_path: Path, base: Keys, keys: Keys, says: list[str]) -> None:
    slow = _with(base, {"hardware.nodes": 2, "hardware.network_gbps": 10, **keys})
    found = compiled(tmp_path, slow, only_plan=True)
    share = found.plan.stages[0].needs.waiting_share if found.plan else 0
    told = [finding.labels[0].message for finding in found.diagnostics if finding.code == "W0519"]
    assert told == [text.format(share=share) for text in says]


@pytest.mark.parametrize(("cores", "told"), [(6, ["3 cores for each GPU"]), (8, []), (None, [])])
def test_few_cores_are_told_and_enough_are_not(tmp_path: Path, cores: int | None, told: list[str]) -> None:
    keys = {"hardware.gpus_per_node": 2} | ({"hardware.cpu_cores": cores} if cores else {})
    found = compiled(tmp_path, _with(LORA, keys), only_plan=True).diagnostics
    assert [finding.labels[0].message for finding in found if finding.code == "W0520"] == told


def test_the_page_of_a_risky_combination_shows_one(tmp_path: Path) -> None:
    example = explain("W0504").partition("```toml\n")[2].partition("```")[0]
    recipe = LORA | tomllib.loads(example)
    assert codes(good(tmp_path, with_key(recipe, "hardware.gpu", "h100"))) == ["W0522", "W0504"]


@pytest.mark.parametrize(
    ("base", "gpus", "batch", "title"),
    [
        (LORA, 4, 2, "2 of 4 GPUs are idle"),
        (LORA, 4, 3, "1 of 4 GPUs is idle"),
        (BASES["cpu"], 2, 1, "1 of 2 devices is idle"),
    ],
)
def test_idle_devices_are_counted(tmp_path: Path, base: Keys, gpus: int, batch: int, title: str) -> None:
    recipe = _with(base, {"hardware.gpus_per_node": gpus, "train.global_batch_size": batch})
    found = compiled(tmp_path, recipe, only_plan=True)
    assert title in [finding.title for finding in found.diagnostics]
    assert found.plan and found.plan.stages[0].decisions["world_size"].because.startswith(
        "the global batch has no sequence for the other"
    )
    assert f"{title.replace(' is', '').replace(' are', '')}, and paid" in found.plan.stages[0].cost_because


@pytest.mark.parametrize(
    ("policy", "code"),
    [({"licenses": ["mit"]}, "E0404"), ({"max_usd": 0.01}, "E0404"), ({"licenses": ["apache-2.0"]}, "")],
)
def test_policy_of_the_team(tmp_path: Path, policy: Keys, code: str) -> None:
    (tmp_path / "team.toml").write_text(
        "[policy]\n" + "".join(f"{key} = {str(value).lower()}\n" for key, value in policy.items())
    )
    found = compiled(tmp_path, with_key(with_key(LORA, "recipe.extends", "team.toml"), "recipe.allow", ["W0522"]))
    assert codes(found) == [code] * bool(code)


def test_a_limit_in_money_does_not_pass_where_no_price_is_known(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[policy]\nmax_usd = 0.0001\n")
    assert "E0404" in codes(compiled(tmp_path, with_key(BASES["cpu"], "recipe.extends", "team.toml")))


@pytest.mark.parametrize(("in_team", "in_recipe", "code"), [("", "0", "E0404"), ("0", "", ""), ("", "100", "E0404")])
def test_a_recipe_does_not_lift_a_limit_in_money_by_its_price(
    tmp_path: Path, in_team: str, in_recipe: str, code: str
) -> None:
    """Only the file that sets the limit can state a price below the catalog's."""
    budget = f"[budget]\nprice_per_gpu_hour = {in_team}\n" if in_team else ""
    (tmp_path / "team.toml").write_text(f"[policy]\nmax_usd = 0.0001\n{budget}")
    recipe = _with(LORA, {"recipe.extends": "team.toml", "recipe.allow": ["W0522"]})
    recipe = with_key(recipe, "budget.price_per_gpu_hour", int(in_recipe)) if in_recipe else recipe
    assert codes(compiled(tmp_path, recipe)) == [code] * bool(code)


def test_a_price_below_the_catalogs_is_used_where_the_plan_keeps_to_the_limit_anyway(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[policy]\nmax_usd = 100000\n")
    recipe = _with(LORA, {"recipe.extends": "team.toml", "recipe.allow": ["W0522"], "budget.price_per_gpu_hour": 0})
    found = compiled(tmp_path, recipe)
    assert codes(found) == [] and found.plan and found.plan.cost_usd == 0


def test_parallel_sizes_that_do_not_divide_are_told_what_they_need(tmp_path: Path) -> None:
    recipe = _with(LORA, {"hardware.gpus_per_node": 2, "train.tensor_parallel": 3})
    (problem,) = compiled(tmp_path, recipe).diagnostics
    assert problem.code == "E0405" and "must divide the number of GPUs" in problem.notes[0]
    assert problem.help == (
        "remove `train.tensor_parallel`: LoRA, ddp then fits in 54.2 GiB per GPU; "
        "the whole run takes 16 min and costs $1.45",
    )


def test_offload_on_one_gpu_is_told_what_it_needs(tmp_path: Path) -> None:
    (problem,) = compiled(tmp_path, with_key(LORA, "train.offload", "cpu")).diagnostics
    assert problem.code == "E0405" and "at least two GPUs" in problem.notes[0]
    assert problem.help == (
        "remove `train.offload`: LoRA, single then fits in 54.0 GiB per GPU; "
        "the whole run takes 28 min and costs $1.32",
    )


# Keys beside those of FSDP on two nodes of eight -> the way to fewer GPUs, and the batch with which more train.
IDLE = {
    "a node is not used": ({"hardware.network_gbps": 10}, "set `hardware.nodes = 1`: as the recipe is", None),
    "half a node is used": (
        {"model.name": "Qwen/Qwen2.5-0.5B", "train.adaptation": "lora", "train.global_batch_size": 32},
        "set `hardware.nodes = 1` and `hardware.gpus_per_node = 4`",
        64,
    ),
}


@pytest.mark.parametrize("name", IDLE)
def test_idle_gpus_are_told_with_what_uses_them(tmp_path: Path, name: str) -> None:
    keys, fewer, batch = IDLE[name]
    recipe = _with(FSDP, {"hardware.nodes": 2, **keys})
    help = next(f for f in compiled(tmp_path, recipe, only_plan=True).diagnostics if f.code == "W0503").help
    assert any(line.startswith(fewer) for line in help)
    assert any(line.startswith(f"set `train.global_batch_size = {batch}`: ddp on 8 GPUs") for line in help) == bool(
        batch
    )
    if batch:
        plan = compiled(tmp_path, with_key(recipe, "train.global_batch_size", batch), only_plan=True).plan
        assert plan and plan.stages[0].layout.mesh.world_size == 8
