"""What rules, rows, pages and plans say: in plain, public words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key
from wording import faults, faults_of_a_reason

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES
from recipec.compiler import compile_recipe
from recipec.planner import Plan
from recipec.rules import RULES
from recipec.rules.checklist import CHECKLIST
from recipec.rules.combinations import COMBINATIONS
from recipec.rules.pages import explain_rule
from recipec.rules.unbuilt import UNBUILT

RECIPES = sorted(path for path in (Path(__file__).parents[2] / "recipes").glob("*.toml") if path.stem != "team")
PAGES = {id: explain_rule(id) for id in (*RULES, *(row.id for row in (*COMBINATIONS, *UNBUILT)))}
TEXTS = {
    **{f"watch of {rule.id}": rule.watch for rule in RULES.values()},
    **{
        f"{row.name} {field}": getattr(row, field)
        for row in STRATEGIES.values()
        for field in ("because", "pros", "cons")
    },
    **{f"{row.name} because": row.because for row in ADAPTATIONS.values()},
    **{
        f"{row.name} {field}": getattr(row, f"{field}_because")
        for row in METHODS.values()
        for field in ("packs", "sampling", "least_micro_batch", "preferred")
    },
    **{f"{item.text} {part}": getattr(item, part) for item in CHECKLIST for part in ("text", "met", "unmet")},
}


@pytest.mark.parametrize("id", PAGES)
def test_a_page_is_worded_plainly(id):
    assert not faults(PAGES[id])


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_a_row_is_worded_plainly(name):
    assert not faults(TEXTS[name])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_plan_is_worded_plainly(recipe):
    compilation = compile_recipe(recipe, only_plan=True)
    assert compilation.plan
    assert not found_in(compilation.plan)


OTHERS = {  # what the shipped recipes do not show: what is idle, offloaded, shared, fixed, of 4 bits or on a CPU
    "idle GPUs": ("lora-single", {"hardware.gpus_per_node": 4, "train.global_batch_size": 2}),
    "a global batch of other ranks": ("lora-ddp", {"hardware.gpus_per_node": 8, "train.global_batch_size": 12}),
    "a model that is chosen": ("auto", {}),
    "shared layers": ("lora-single", {"hardware.gpus_per_node": 8, "train.context_parallel": 2}),
    "partly checkpointed": ("full-fsdp", {"goal.priority": "speed"}),
    "two nodes": ("full-fsdp", {"hardware.nodes": 2}),
    "Lion": ("full-fsdp", {"train.optimizer": "lion"}),
    "SGD": ("lora-single", {"train.optimizer": "sgd"}),
    "a small card": ("small-card", {"goal.priority": "memory", "goal.new_domain": True}),
    "quality": ("lora-single", {"goal.priority": "quality", "goal.first_time": True, "data.examples": 20_000}),
    "a CPU": ("cpu", {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_plan_is_worded_plainly(tmp_path, name):
    base, keys = OTHERS[name]
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan
    assert not found_in(plan)


ELSEWHERE = ("model", "model_runners_up")  # how a model was chosen: recipec/selection


def found_in(plan: Plan) -> dict[str, list[str]]:
    """The faults of what a plan says, by decision or alternative."""
    found: dict[str, list[str]] = {}
    for stage in plan.stages:
        for decision in stage.decisions.values():
            if decision.id in ELSEWHERE:
                continue
            value = decision.value if decision.rule or decision.origin == "planner" else None
            name = f"{stage.stage.label}.{decision.id}: {decision.because}"
            found[name] = faults_of_a_reason(value, decision.because) + faults(decision.watch)
        for other in stage.rejected:
            found[f"{other.family}: {other.reason}"] = faults(f"{other.family}: {other.reason}")
        found["next better"] = faults(json.dumps(str(stage.next_better)))
    return {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("LoRA, as 001 says", True),
        ("rule book 001 says so", False),
        ("rule books 001 and 003 say so", False),
        ("of 1,001 rows 0.001 are lost", False),
        ("our decision", True),
        ("a quantised base", True),
        ("`model.licences` is set", False),
        ("the licence of the model", True),
        ("10 % of the rows", True),
    ],
)
def test_faults_are_found(text, wrong):
    assert bool(faults(text)) == wrong


FORCED = [(1, "the best of 0 other kinds"), (True, "0.0B parameters are few"), (1, "1 x 1"), (24.0, "1 x 23.64 GiB")]


@pytest.mark.parametrize(
    ("value", "because"),
    [
        (2e-4, "2e-4 for LoRA"),
        (3, "3: the best, the newest"),
        (1, "rule book 001 has it"),
        (1, "there are 0 pairs"),
        *FORCED,
    ],
)
def test_a_reason_is_no_repetition_and_no_reference(value, because):
    assert faults_of_a_reason(value, because)
