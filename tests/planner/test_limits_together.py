"""What counts as equal of batch and layout holds for both together, and a raised batch leaves enough steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.planner import StagePlan
from recipec.planner.planner import contexts
from recipec.planner.search.bounds import TIE
from recipec.planner.search.candidates import seconds_per_sequence
from recipec.planner.search.fit import fit
from recipec.planner.search.global_batch import ENOUGH_STEPS
from recipec.planner.search.preference import fastest_of


def case(model: str, gpu: str, nodes: int, network: int, examples: int, tokens: int, base: str, how: str) -> Tables:
    recipe = with_key(with_key(BASES[base], "model.name", model), "train", {"adaptation": how})
    recipe = with_key(recipe, "hardware", {"gpu": gpu, "gpus_per_node": 8, "nodes": nodes, "network_gbps": network})
    recipe = with_key(recipe, "data.max_length", 4096)
    return with_key(with_key(recipe, "data.examples", examples), "data.tokens_per_example", tokens)


@pytest.mark.parametrize(("gpu", "nodes", "network"), [("rtx-4090", 2, 25), ("h100", 8, 50)])
def test_a_smaller_batch_and_a_simpler_layout_stay_within_one_limit(
    tmp_path: Path, gpu: str, nodes: int, network: int
) -> None:
    recipe = case("Qwen/Qwen3-14B", gpu, nodes, network, 3400, 300, "lora-single", "lora")
    compilation = compiled(tmp_path, recipe, only_plan=True)
    assert compilation.recipe and compilation.facts and compilation.plan
    (context,) = contexts(compilation.recipe, compilation.facts)
    found = fit(context, compilation.recipe)
    assert found.chosen is not None
    tried = [*found.tried, *found.larger]
    alike = [each for each in tried if each.fits and each.layout.adapts is found.chosen.layout.adapts]
    fastest = fastest_of([each for each in alike if each.layout.can_be_built])
    assert fastest is not None
    assert seconds_per_sequence(found.chosen) <= (1 + TIE + 1e-9) * seconds_per_sequence(fastest)
    if found.chosen.of_batch:
        told = [row.reason for row in compilation.plan.stages[0].rejected]
        assert any("because the smaller global batch takes the rest of 25%, count as equal" in line for line in told)


@pytest.mark.parametrize(
    ("base", "model", "gpu", "nodes", "network", "how", "examples", "tokens"),
    [
        ("lora-single", "Qwen/Qwen3-1.7B", "h100", 8, 50, "lora", 3400, 300),
        ("sft-dpo", "Qwen/Qwen3-14B", "l40s", 4, 25, "full", 3000, 2500),
    ],
)
def test_a_raised_batch_leaves_enough_steps(
    tmp_path: Path, base: str, model: str, gpu: str, nodes: int, network: int, how: str, examples: int, tokens: int
) -> None:
    """As its layout makes it, not only as it is decided."""
    plan = compiled(tmp_path, case(model, gpu, nodes, network, examples, tokens, base, how), only_plan=True).plan
    assert plan is not None
    assert all(stage.steps >= ENOUGH_STEPS for stage in plan.stages if _is_raised(stage))


def _is_raised(stage: StagePlan) -> bool:
    return "raised from" in stage.decisions["global_batch_size"].because
