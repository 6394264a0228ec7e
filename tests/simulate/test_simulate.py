"""What the simulation gives on small models, where the whole depth is at hand."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace
from tiers import one_in, quick_where

from recipec.catalog.models import model
from recipec.estimate.memory import step_memory
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh
from recipec.simulate.notes import obstacle

LORA = Workload(seq_len_tokens=1024, lora=LoraShape(16), sync_each_batch=True)
FULL = replace(LORA, lora=None)
PLAIN = Layout("lora", "bf16", "single", Mesh(), "none", 2, 1, True, "sdpa", False, "adamw")
SHARDED = {"strategy": "fsdp", "mesh": Mesh(shard=8)}


OPTIMIZERS = ("adafactor", "lion", "lion-8bit", "paged-adamw", "sgd")


def small(name: str, layers: int = 7):
    return replace(model(name).architecture, num_layers=layers)


def in_turn(models, names):
    """Every name once, the models in turn, a third of them with every commit; the committed grid has more of them."""
    return one_in(3, zip(itertools.cycle(models), names, strict=False))


RUNS = {
    "lora": (PLAIN, LORA),
    "full, kept": (replace(PLAIN, adaptation="full", checkpointing=False), FULL),
    "dpo, sharded": (replace(PLAIN, adaptation="full", **SHARDED), replace(FULL, objective="dpo")),
    "qlora, sharded": (replace(PLAIN, adaptation="qlora", **SHARDED), LORA),
}


@pytest.mark.executes
@pytest.mark.parametrize("name", quick_where({"lora"}, RUNS))
def test_two_depths_continued_equal_all_layers(name):
    from recipec.simulate.simulate import simulate

    architecture, (layout, work) = small("Qwen/Qwen2.5-0.5B"), RUNS[name]
    continued, whole = (simulate(architecture, layout, work, full_depth=full) for full in (False, True))
    assert "continued to 7" in continued.notes[0] and "all 7" in whole.notes[0]
    assert dict(continued.moments) == pytest.approx(dict(whole.moments), rel=1e-6)  # blocks are rounded to 512 bytes
    assert sum(continued.terms.values()) == pytest.approx(continued.peak_allocated_bytes, rel=1e-6)


@pytest.mark.executes
def test_experts_and_their_router_loss_grow_with_the_depth_as_the_formula_says():
    from recipec.simulate.simulate import simulate

    architecture = small("Qwen/Qwen3-30B-A3B")
    work = replace(LORA, lora=LoraShape(16, ("q_proj", "k_proj", "v_proj", "o_proj")))
    continued, whole = (simulate(architecture, PLAIN, work, full_depth=full) for full in (False, True))
    assert dict(continued.moments) == pytest.approx(dict(whole.moments), rel=1e-6)
    formula = step_memory(architecture, PLAIN, work).peak_allocated_bytes
    assert formula == pytest.approx(whole.peak_allocated_bytes, rel=0.03)


ATTENTION, GATE_UP, DOWN = ("q_proj", "k_proj", "v_proj", "o_proj"), "experts.gate_up_proj", "experts.down_proj"
ON_EXPERTS = {  # layout, workload, what has adapters
    "recomputed": (PLAIN, LORA, (GATE_UP, DOWN)),
    "kept": (replace(PLAIN, checkpointing=False), LORA, (GATE_UP, DOWN)),
    "one parameter": (PLAIN, LORA, (DOWN,)),
    "the other": (replace(PLAIN, checkpointing=False), LORA, (GATE_UP,)),
    "sharded": (replace(PLAIN, **SHARDED), LORA, (GATE_UP, DOWN)),
    "on a 4-bit base": (replace(PLAIN, adaptation="qlora"), LORA, (GATE_UP, DOWN)),
    "switched off": (replace(PLAIN, checkpointing=False), replace(LORA, objective="dpo"), (GATE_UP, DOWN)),
    "scored too": (PLAIN, replace(LORA, objective="kto"), (GATE_UP, DOWN)),
}


@pytest.mark.executes
@pytest.mark.parametrize("model_name, name", in_turn(("Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1"), ON_EXPERTS))
def test_adapters_on_experts_take_what_the_formula_says(model_name, name):
    """The weights that PEFT builds are most of a shallow model's step."""
    from recipec.simulate.simulate import simulate

    layout, work, experts = ON_EXPERTS[name]
    architecture, work = small(model_name, 2), replace(work, lora=LoraShape(16, ATTENTION, False, experts, 4))
    peak = simulate(architecture, layout, work, full_depth=True).peak_allocated_bytes
    assert step_memory(architecture, layout, work).peak_allocated_bytes == pytest.approx(peak, rel=0.012)


@pytest.mark.executes
@pytest.mark.parametrize("method, spread", [("dpo", SHARDED), ("kto", {})])
def test_a_precomputed_reference_is_not_in_memory(method, spread):
    from recipec.simulate.simulate import simulate

    architecture, work = small("Qwen/Qwen2.5-0.5B", 3), replace(FULL, objective=method)
    once, always = (replace(PLAIN, adaptation="full", precomputes=flag, **spread) for flag in (True, False))
    simulated = simulate(architecture, once, work).peak_allocated_bytes
    assert step_memory(architecture, once, work).peak_allocated_bytes == pytest.approx(simulated, rel=0.03)
    assert simulate(architecture, always, work).peak_allocated_bytes > 1.05 * simulated


@pytest.mark.executes
@pytest.mark.parametrize("model_name, name", in_turn(("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B"), OPTIMIZERS))
def test_the_step_of_another_optimizer_is_what_the_formula_says(model_name, name):
    """Two layers are enough: a tied embedding and biases, and experts that are one parameter."""
    from recipec.simulate.simulate import simulate

    architecture, layout = small(model_name, 2), replace(PLAIN, adaptation="full", optimizer=name)
    step = simulate(architecture, layout, FULL, full_depth=True).moments["optimizer_step"]
    assert step_memory(architecture, layout, FULL).moments["optimizer_step"] == pytest.approx(step, rel=0.01)


@pytest.mark.executes
def test_sgd_takes_one_shard_after_the_other():
    from recipec.simulate.simulate import simulate

    layout = replace(PLAIN, adaptation="full", optimizer="sgd", **SHARDED)
    architecture = small("Qwen/Qwen2.5-0.5B", 2)
    step = simulate(architecture, layout, FULL, full_depth=True).moments["optimizer_step"]
    assert step_memory(architecture, layout, FULL).moments["optimizer_step"] == pytest.approx(step, rel=0.01)


OBSTACLES = [
    (replace(PLAIN, strategy="zero3", mesh=Mesh(shard=8)), LORA, "zero3"),
    (replace(PLAIN, offload="cpu"), LORA, "offload"),
    (replace(PLAIN, optimizer="adamw-8bit", **SHARDED), LORA, "adamw-8bit"),
    (PLAIN, replace(LORA, head="hf"), "head"),
    (replace(PLAIN, recompute_every=2), replace(LORA, objective="dpo"), "every layer"),
    (PLAIN, LORA, None),
]


@pytest.mark.parametrize("layout, work, reason", OBSTACLES)
def test_what_cannot_be_simulated_is_said(layout, work, reason):
    found = obstacle(layout, work)
    assert found is None if reason is None else reason in found
