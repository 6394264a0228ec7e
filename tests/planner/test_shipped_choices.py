"""What the planner chooses for every shipped recipe and for every shape of recipe that tests compile."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good

from recipec.cli.plan import plan_text
from recipec.compiler import Compilation, compile_recipe
from recipec.planner.document import plan_document

RECIPES = Path(__file__).parents[2] / "recipes"
# Recipe -> stage, adaptation, quantization, strategy, offload of each stage. Batches follow the estimates: not pinned.
SHIPPED: dict[str, list[tuple[str, ...]]] = {
    "code-assistant": [("sft", "lora", "none", "single", "none")],
    "cpo": [("cpo", "lora", "none", "single", "none")],
    "cpu-demo": [("sft", "full", "none", "single", "none")],
    "distill": [("distill", "full", "none", "single", "none")],
    "on-policy-distill": [("on-policy-distill", "full", "none", "single", "none")],
    "domain-text": [("continue-pretrain", "full", "none", "single", "none")],
    "dpo": [("dpo", "lora", "none", "ddp", "none")],
    "full-finetune": [("sft", "full", "none", "fsdp", "none")],
    "grpo": [("grpo", "lora", "none", "single", "none")],
    "tools": [("grpo", "lora", "none", "single", "none")],
    "rloo": [("rloo", "lora", "none", "single", "none")],
    "kto": [("kto", "lora", "none", "single", "none")],
    "mixture": [("sft", "lora", "none", "single", "none")],
    "new-domain": [
        ("continue-pretrain", "full", "none", "single", "none"),
        ("sft", "lora", "none", "single", "none"),
    ],
    "fused-tasks": [
        ("sft", "bottleneck", "none", "single", "none"),
        ("sft", "bottleneck", "none", "single", "none"),
        ("sft", "fusion", "none", "single", "none"),
    ],
    "multi-task": [("sft", "lora", "none", "single", "none")] * 2,
    "orpo": [("orpo", "lora", "none", "fsdp", "none")],
    "ppo": [("ppo", "lora", "none", "single", "none")],
    "pretrain": [("pretrain", "full", "none", "ddp", "none")],
    "pretrain-mixture": [("pretrain", "full", "none", "zero1", "none")],
    "reward": [("reward", "lora", "none", "fsdp", "none")],
    "simpo": [("simpo", "full", "none", "fsdp", "none")],
    "rlhf": [(name, "lora", "none", "single", "none") for name in ("sft", "reward", "ppo")],
    "sft-then-dpo": [("sft", "lora", "none", "ddp", "none"), ("dpo", "lora", "none", "ddp", "none")],
    "support-chat": [("sft", "lora", "nf4", "single", "none")],
    "team-billing": [("sft", "lora", "none", "single", "none")],
    "team-sales": [("sft", "lora", "none", "single", "none")],
    "zero3-offload": [("sft", "full", "none", "zero3", "cpu")],
}


def _choices(found: Compilation) -> list[tuple[str, ...]]:
    assert found.plan, [str(finding) for finding in found.diagnostics]
    layouts = [(part.stage.name, part.layout) for part in found.plan.stages]
    return [(name, lay.adapts.family, lay.quantization, lay.strategy, lay.offload) for name, lay in layouts]


def test_every_shipped_recipe_is_listed() -> None:
    assert {path.stem for path in RECIPES.glob("*.toml")} - {"team"} == SHIPPED.keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_recipes(name: str) -> None:
    found = compile_recipe(RECIPES / f"{name}.toml", only_plan=True)
    assert _choices(found) == SHIPPED[name]
    assert not found.diagnostics


@pytest.mark.parametrize("name", BASES)
def test_a_plan_fits_its_own_estimate(tmp_path: Path, name: str) -> None:
    plan = good(tmp_path, BASES[name]).plan
    assert plan
    for stage in plan.stages:
        assert stage.memory.peak_allocated_bytes <= stage.usable_bytes < stage.capacity_bytes
        assert stage.layout.mesh.world_size <= stage.decisions["gpus"].value
        assert stage.layout.global_batch == stage.decisions["global_batch_size"].value
        assert stage.steps >= 1 and stage.seconds > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [("pretrain", "full training"), ("domain-text", "full fine-tuning"), ("full-finetune", "full fine-tuning")],
)
def test_training_all_weights_has_one_name(name: str, words: str) -> None:
    plan = compile_recipe(RECIPES / f"{name}.toml", only_plan=True).plan
    assert plan
    assert f"  trains   {words}, in bf16" in plan_text(plan_document(plan))
    said = [f"{other.family}: {other.reason}" for other in plan.stages[0].rejected]
    assert said and all(line.startswith(f"{words}, ") or line.endswith(f"recipec prefers {words}") for line in said)
