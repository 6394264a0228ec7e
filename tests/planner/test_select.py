"""`model.name = "auto"`: which model is chosen, from what, why, and that it stays the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key, without
from tiers import one_in

from recipec.catalog.models import model
from recipec.compiler import Compilation
from recipec.planner.plan import Selection

CHAT = with_key(BASES["lora-single"], "model.name", "auto")
TEXT = with_key(BASES["text"], "model.name", "auto")
PAIRS = without(with_key(BASES["dpo-full"], "model.name", "auto"), "train")
BOTH = with_key(BASES["sft-dpo"], "model.name", "auto")
FORTY_GIB = with_key(CHAT, "hardware", {"vram_gib": 40})


def changed(recipe: Tables, changes: dict[str, Any]) -> Tables:
    for key, value in changes.items():
        recipe = with_key(recipe, key, value)
    return recipe


def selected(folder: Path, recipe: Tables) -> Selection:
    found = compiled(folder, recipe, only_check=True).plan
    assert found is not None and found.selection is not None
    return found.selection


# Base, GiB of a GPU, GPUs, priority -> the model, the adaptation, the quantization.
HARDWARE = [
    (CHAT, 8, 1, None, "Qwen/Qwen3-1.7B", "lora", "none"),
    (CHAT, 24, 1, None, "Qwen/Qwen3-8B", "lora", "none"),
    (CHAT, 80, 1, None, "Qwen/Qwen3-32B", "lora", "none"),
    (CHAT, 80, 8, None, "Qwen/Qwen3-32B", "lora", "none"),
    (CHAT, 16, 1, "quality", "Qwen/Qwen3-14B", "lora", "nf4"),
    (CHAT, 24, 1, "quality", "allenai/OLMo-2-0325-32B-Instruct", "lora", "nf4"),
    (CHAT, 24, 1, "speed", "Qwen/Qwen3-4B-Instruct-2507", "lora", "none"),
    (CHAT, 24, 1, "memory", "Qwen/Qwen3-4B-Instruct-2507", "lora", "nf4"),
    (CHAT, 80, 1, "speed", "Qwen/Qwen3-14B", "lora", "none"),
    (TEXT, 24, 1, None, "mistralai/Ministral-3-8B-Base-2512", "lora", "none"),
    (TEXT, 80, 8, None, "ByteDance-Seed/Seed-OSS-36B-Base", "lora", "none"),
    (PAIRS, 24, 1, None, "Qwen/Qwen3-8B", "lora", "none"),
    (BOTH, 24, 1, None, "Qwen/Qwen3-8B", "lora", "none"),
]


@pytest.mark.parametrize(("base", "memory", "gpus", "priority", "name", "adaptation", "quantization"), HARDWARE)
def test_the_model_suits_the_hardware(
    tmp_path: Path, base: Tables, memory: int, gpus: int, priority: str | None, name: str, adaptation: str,
    quantization: str,
) -> None:  # fmt: skip
    recipe = with_key(base, "hardware", {"vram_gib": memory, "gpus_per_node": gpus})
    plan = good(tmp_path, with_key(recipe, "goal.priority", priority) if priority else recipe).plan
    assert plan is not None and plan.selection is not None
    layout = plan.stages[-1].layout
    assert (plan.selection.model, layout.adapts.family, layout.quantization) == (name, adaptation, quantization)


def test_on_a_cpu_a_model_takes_a_small_part_of_the_memory(tmp_path: Path) -> None:
    """Time is the limit there: a larger model would fit."""
    found = {
        kind: selected(tmp_path, with_key(CHAT, "hardware", hardware)).model
        for kind, hardware in {
            "cpu": {"gpu": "cpu", "host_memory_gib": 64},
            "eighth": {"gpu": "cpu", "host_memory_gib": 8},
            "gpu": {"vram_gib": 64},
        }.items()
    }
    sizes = {kind: model(name).architecture.params for kind, name in found.items()}
    assert sizes["eighth"] < sizes["cpu"] < sizes["gpu"] / 4, found


# What the recipe asks for, on one GPU of 40 GiB, and the model that is chosen then.
WISHES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "Qwen/Qwen3-14B"),
    "a line": ({"model.family": "llama"}, "meta-llama/Llama-3.1-8B-Instruct"),
    "generations": ({"model.family": ["Llama-3.1", "llama-3.2"]}, "meta-llama/Llama-3.1-8B-Instruct"),
    "a family of one purpose": ({"model.family": "codellama"}, "codellama/CodeLlama-13b-Instruct-hf"),
    "reasoning": ({"model.family": "deepseek-r1-distill"}, "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"),
    "general before reasoning": ({"model.family": "phi-4"}, "microsoft/phi-4"),
    "a line without its mixtures": ({"model.family": "qwen"}, "Qwen/Qwen3-14B"),
    "a license": ({"model.licenses": ["mit"]}, "microsoft/phi-4"),
    "two licenses": ({"model.licenses": ["MIT", "Gemma Terms of Use"]}, "microsoft/phi-4"),
    "a limit of size": ({"model.max_params_billion": 8.5}, "Qwen/Qwen3-8B"),
    "a newer generation of half the size": ({"model.max_params_billion": 8.1}, "Qwen/Qwen3-4B-Instruct-2507"),
    "a long context": ({"data.max_length": 20_000}, "Qwen/Qwen3-8B"),
    "a longer context": ({"data.max_length": 60_000}, "Qwen/Qwen3-4B-Instruct-2507"),
    "a context of 100k": ({"data.max_length": 100_000}, "ibm-granite/granite-4.0-1b"),
    "base models for many rows": ({"model.family": "olmo-3", "data.examples": 10_000}, "allenai/Olmo-3-1025-7B"),
    "modules to adapt": ({"train.lora.targets": ["qkv_proj"]}, "microsoft/phi-4"),
    "all weights": ({"train.adaptation": "full"}, "Qwen/Qwen3-1.7B"),
    "four bits": ({"train.quantization": "nf4"}, "Qwen/Qwen3-32B"),
    "qlora": ({"train.adaptation": "qlora"}, "Qwen/Qwen3-32B"),
    "the smallest where none fits in 16 bits": (
        {"model.family": "qwen2.5", "model.licenses": ["Qwen licence"], "hardware": {"vram_gib": 7}},
        "Qwen/Qwen2.5-3B-Instruct",
    ),
}


def test_prompts_alone_have_a_model_chosen_too(tmp_path: Path) -> None:
    assert selected(tmp_path, with_key(BASES["grpo"], "model.name", "auto")).model


@pytest.mark.parametrize("case", WISHES)
def test_a_wish_steers(tmp_path: Path, case: str) -> None:
    changes, name = WISHES[case]
    assert selected(tmp_path, changed(FORTY_GIB, changes)).model == name


@pytest.mark.parametrize("hours", [0.3, 1, 2.5])
def test_a_budget_takes_a_smaller_model_and_the_next_larger_is_over_it(tmp_path: Path, hours: float) -> None:
    compilation = good(tmp_path, with_key(FORTY_GIB, "budget", {"max_hours": hours}))
    assert compilation.plan is not None and compilation.plan.selection is not None
    assert compilation.plan.seconds <= 3600 * hours
    assert "over budget: the plan takes" in compilation.plan.selection.runners_up[0].reason


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ({"licenses": ["mit"]}, "microsoft/phi-4"),
        ({"models": ["HuggingFaceTB/*"]}, "HuggingFaceTB/SmolLM3-3B"),
        ({"licenses": ["Gemma Terms of Use"]}, "google/gemma-3-12b-it"),
    ],
)
def test_a_policy_holds(tmp_path: Path, policy: Tables, name: str) -> None:
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in policy.items())
    (tmp_path / "team.toml").write_text(f"[policy]\n{text}")
    assert selected(tmp_path, with_key(FORTY_GIB, "recipe.extends", "team.toml")).model == name


def test_a_recipe_that_names_a_model_drops_the_wishes_that_it_inherits(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text('[model]\nname = "auto"\nfamily = "qwen"\n')
    named = good(tmp_path, changed(CHAT, {"recipe.extends": "team.toml", "model.name": "Qwen/Qwen2.5-7B"})).plan
    assert named is not None and named.selection is None
    inherited = without(with_key(CHAT, "recipe.extends", "team.toml"), "model.name")
    assert selected(tmp_path, inherited).model == "Qwen/Qwen3-32B"


def test_a_choice_that_two_keys_of_one_recipe_contradict_is_refused_under_extends(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[train]\nepochs = 1\n")
    recipe = changed(CHAT, {"recipe.extends": "team.toml", "model": {"family": "qwen", "name": "Qwen/Qwen3-8B"}})
    assert codes(compiled(tmp_path, recipe)) == ["E0401"]


GROWING = {"chat": CHAT, "text": TEXT, "pairs": PAIRS}


@pytest.mark.parametrize(("base", "priority"), one_in(3, product(GROWING, (None, "quality", "speed", "memory"))))
def test_more_memory_never_means_a_smaller_model(tmp_path: Path, base: str, priority: str | None) -> None:
    recipe = with_key(GROWING[base], "goal.priority", priority) if priority else GROWING[base]
    found = [(gib, _params(tmp_path, recipe, gib)) for gib in (4, 8, 11, 12, 15, 16, 20, 24, 32, 48, 80, 141)]
    for (_, less), (gib, more) in pairwise(found):
        assert less <= more, f"{gib} GiB takes a smaller model"


def _params(folder: Path, recipe: Tables, gib: int) -> int:
    found = model(selected(folder, with_key(recipe, "hardware", {"vram_gib": gib})).model)
    assert found is not None
    return found.architecture.params


def test_the_order_of_keys_and_a_second_time_change_nothing(tmp_path: Path) -> None:
    recipe = changed(CHAT, {"model.family": ["qwen3", "smollm3"], "model.max_params_billion": 9})
    backwards = {name: dict(reversed(table.items())) for name, table in recipe.items()}
    assert texts(good(tmp_path, recipe)) == texts(good(tmp_path, backwards)) == texts(good(tmp_path, recipe))


def test_the_environment_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = texts(good(tmp_path, CHAT))
    monkeypatch.setenv("HF_TOKEN", "hf_anything")
    assert texts(good(tmp_path, CHAT)) == before


def test_the_decision_has_its_reason_and_its_runners_up(tmp_path: Path) -> None:
    compilation = good(tmp_path, with_key(CHAT, "hardware", {"gpu": "rtx-4090"}))
    assert compilation.plan is not None
    found = compilation.plan.stages[0].decisions["model"]
    assert (found.origin, found.rule, found.key) == ("planner", "MODEL-007", "model.name")
    assert "8.19B parameters, LoRA in 20." in found.because
    assert {"model_kinds", "model_licenses", "model_context", "gpu"} <= set(found.inputs)
    reasons = {other.model: other.reason for other in _selection(compilation).runners_up}
    assert 3 <= len(reasons) <= 5
    assert reasons["Qwen/Qwen3-14B"].startswith("LoRA 29.4 GiB allocated, 8.8 over; ")
    assert reasons["meta-llama/Llama-3.1-8B-Instruct"].startswith("Llama 3.1 Community License, gated; ")


def _selection(compilation: Compilation) -> Selection:
    assert compilation.plan is not None and compilation.plan.selection is not None
    return compilation.plan.selection


def test_the_plan_document_has_the_selection_and_a_named_model_has_none(tmp_path: Path) -> None:
    document = json.loads(good(tmp_path, CHAT).plan_json)["model_selection"]
    assert document.keys() == {"model", "params_billion", "because", "acceptable", "known", "runners_up"}
    assert document["runners_up"][0].keys() == {"model", "params_billion", "reason"}
    assert "model_selection" not in json.loads(good(tmp_path, BASES["lora-single"]).plan_json)


@pytest.mark.parametrize("base", [CHAT, TEXT, BOTH], ids=["chat", "text", "both"])
def test_a_bundle_names_the_model_and_says_why(tmp_path: Path, base: Tables) -> None:
    compilation = good(tmp_path, base)
    chosen, files = _selection(compilation), texts(compilation)
    named = good(tmp_path, with_key(base, "model.name", chosen.model))
    assert {path for path, text in texts(named).items() if text != files[path]} == {"README.md"}
    assert f"recipec chose the model {chosen.model}".replace("_", "\\_") in files["README.md"]


# Changes that leave no model, and what is proposed then: each proposal, made, is good.
DEAD_ENDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "size": ({"model.max_params_billion": 0.1}, {"model.max_params_billion": 0.2}),
    "memory": ({"model.family": "llama-3.3"}, {"model.family": "qwen3"}),
    "kind": ({"model.family": "olmo-3"}, {"model": {"name": "allenai/Olmo-3-1025-7B"}}),
    "context": ({"model.licenses": ["MIT"], "data.max_length": 200_000}, {"data.max_length": 65_536}),
    "purpose": (
        {"model.licenses": ["Llama 2 Community License"], "model.max_params_billion": 6.8, "data.max_length": 9_000},
        {"model.family": "codellama", "model.licenses": ["Llama 2 Community License"]},
    ),
    "targets": ({"train.lora.targets": ["q_prj", "v_prj"]}, {"train.lora.targets": "all-linear"}),
    "targets in a budget": (
        {"train.lora.targets": ["query_key_value"], "budget": {"max_hours": 100}},
        {"train.lora.targets": "all-linear"},
    ),
    "targets of a stage": (
        {"train.sft": {"lora": {"targets": ["experts.gate_up_proj"]}}},
        {"train.sft.lora.targets": "all-linear"},
    ),
    "hardware": ({"model.family": "mixtral"}, {"hardware": {"gpu": "h200"}}),
}


@pytest.mark.parametrize("case", DEAD_ENDS)
def test_a_dead_end_has_a_way_out_that_works(tmp_path: Path, case: str) -> None:
    changes, way = DEAD_ENDS[case]
    recipe = changed(FORTY_GIB, changes)
    [finding] = compiled(tmp_path, recipe).diagnostics
    assert finding.code == "E0408"
    *_, (key, value) = _leaves(way)
    proposed = f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
    assert any(proposed in help.partition(": ")[0] for help in finding.help), finding.help
    assert compiled(tmp_path, changed(recipe, way)).plan is not None


def _leaves(change: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in change.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        elif key != "model.licenses":
            yield key.split(".")[-1], value


def test_the_budget_that_is_proposed_is_enough_and_a_tenth_of_it_is_not(tmp_path: Path) -> None:
    [finding] = compiled(tmp_path, with_key(FORTY_GIB, "budget", {"max_hours": 0.01})).diagnostics
    proposed = float(finding.help[0].removeprefix("max_hours = ").partition(":")[0])
    assert selected(tmp_path, with_key(FORTY_GIB, "budget", {"max_hours": proposed})).model in finding.help[0]
    assert codes(compiled(tmp_path, with_key(FORTY_GIB, "budget", {"max_hours": proposed / 10}))) == ["E0408"]


def test_no_price_is_said_where_the_budget_needs_one(tmp_path: Path) -> None:
    [finding] = compiled(tmp_path, with_key(FORTY_GIB, "budget", {"max_cost_usd": 5})).diagnostics
    assert "price_per_gpu_hour" in finding.help[0]


def test_a_key_of_training_that_changes_the_model_is_told(tmp_path: Path) -> None:
    small = with_key(CHAT, "hardware", {"vram_gib": 24})
    free = selected(tmp_path, small)
    found = selected(tmp_path, changed(small, {"train.adaptation": "lora", "train.quantization": "nf4"}))
    assert found.model != free.model
    assert found.runners_up[0].model == free.model
    assert found.runners_up[0].reason.startswith("would be chosen without `train.quantization`")
    assert not any("would be chosen without" in row.reason for row in free.runners_up)
