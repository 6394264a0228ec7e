"""What a proposal of another model, another base or another GPU tells is what the recipe gives that follows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, with_key
from test_mending import applied

from recipec.planner import Plan
from recipec.planner.advice.changes import smaller_model, unpinned
from recipec.planner.planner import contexts
from recipec.planner.search.context import Context
from recipec.units import duration, usd

ROLES = ("user", "assistant")
TALKS = [
    {"messages": [{"role": role, "content": f"{role} {turn} of {n}. " * 8} for turn in range(6) for role in ROLES]}
    for n in range(12)
]
LARGE_GRANITE: Tables = {
    **BASES["lora-single"],
    "model": {"name": "ibm-granite/granite-4.0-h-small"},
    "data": {"train": "talks.jsonl", "examples": 3000, "max_length": 4096, "tokens_per_example": 1500},
    "hardware": {"gpu": "rtx-3060-12gb"},
}
TOO_LARGE = with_key(BASES["full-fsdp"], "hardware", {"gpu": "a100-40gb"})
TOO_LARGE = with_key(TOO_LARGE, "train", {"adaptation": "full"})


def lines(folder: Path, recipe: Tables, code: str, named: str) -> list[str]:
    found = compiled(folder, recipe, only_plan=True).diagnostics
    return [line for each in found if each.code == code for line in each.help if named in line.partition(": ")[0]]


def context_of(folder: Path, recipe: Tables) -> Context:
    found = compiled(folder, recipe, only_plan=True)
    assert found.recipe and found.facts, found.diagnostics
    [context] = contexts(found.recipe, found.facts)
    return context


def figures(plan: Plan | None) -> str:
    assert plan is not None
    costs = "" if plan.cost_usd is None else f" and costs {usd(plan.cost_usd)}"
    return f"the whole run takes {duration(plan.seconds)}{costs}"


def test_another_model_reads_the_rows_that_its_template_makes(tmp_path: Path) -> None:
    """The template of the larger model is marked; of the smaller one's every answer becomes a row."""
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, TALKS)))
    (line,) = lines(tmp_path, LARGE_GRANITE, "E0402", "model.name")
    then = compiled(tmp_path, applied(LARGE_GRANITE, line), only_plan=True).plan
    assert then is not None and then.stages[0].decisions["examples"].value == 18_000, line
    assert figures(then) in line


def test_every_smaller_model_has_its_own_rows(tmp_path: Path) -> None:
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, TALKS)))
    recipe = with_key(LARGE_GRANITE, "hardware.gpu", "h200")
    rows = {}
    for _, changed in smaller_model(context_of(tmp_path, recipe)):
        named = context_of(tmp_path, with_key(recipe, "model.name", changed.facts.model.name))
        rows[changed.facts.model.name] = changed.data.decisions["examples"].value
        assert changed.data.decisions == named.data.decisions
    assert {*rows.values()} == {3_000, 18_000}


@pytest.mark.parametrize("each", [1, 2])
def test_what_a_recipe_states_of_rows_of_one_answer_stays(tmp_path: Path, each: int) -> None:
    """An answer that is all of its conversation is as long; of two, one is shorter, as far as that is known."""
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": TALKS[0]["messages"][: 2 * each]}))
    recipe = with_key(LARGE_GRANITE, "model.name", "ibm-granite/granite-4.0-micro")
    recipe = with_key(recipe, "data", {"train": "talks.jsonl", "examples": 3_333, "tokens_per_example": 1_234})
    known = context_of(tmp_path, recipe).data.decisions
    sizes = [known[id].value for id in ("examples", "source_rows", "tokens_per_example")]
    assert sizes == ([3_333, 3_333, 1_234] if each == 1 else [6_700, 6_700, 930])


def test_general_rows_stay_away_from_another_model(tmp_path: Path) -> None:
    """A model is proposed for a stage whose general rows were removed with what asked for them."""
    recipe = {**BASES["lora-single"], "train": {"ewc": {"strength": 10.0}}}
    recipe = with_key(recipe, "data.general", "general.jsonl")
    context = context_of(tmp_path, recipe)
    (freed,) = [changed for _, changed in unpinned(context, ("train.ewc.strength",))]
    assert "general_rows" in context.data.decisions
    assert all("general_rows" not in changed.data.decisions for _, changed in smaller_model(freed))


def test_the_base_that_a_word_names_is_freed_by_another_word(tmp_path: Path) -> None:
    """ "qlora" names a base, and no key of its own does."""
    recipe = with_key(BASES["distill"], "alignment.teacher", "meta-llama/Llama-3.1-70B")
    recipe = with_key(recipe, "model.name", "meta-llama/Llama-3.2-1B")
    recipe = with_key(recipe, "data", {"train": "chat.jsonl", "examples": 5000, "tokens_per_example": 614})
    hardware = {"gpu": "rtx-a6000", "nodes": 2, "network_gbps": 3200, "host_memory_gib": 256}
    recipe = with_key(with_key(recipe, "hardware", hardware), "train", {"adaptation": "qlora"})
    assert not lines(tmp_path, recipe, "E0402", "model.init_from")
    (line,) = lines(tmp_path, recipe, "E0402", '`train.adaptation = "lora"`')
    assert figures(compiled(tmp_path, applied(recipe, line), only_plan=True).plan) in line


@pytest.mark.parametrize("limit", [None, 20.0])
@pytest.mark.parametrize("inherited", [False, True])
def test_a_stated_price_goes_with_its_gpu(tmp_path: Path, inherited: bool, limit: float | None) -> None:
    """It is removed with it; one that is inherited cannot be, and the recipe states another over it."""
    priced = {"price_per_gpu_hour": 0.5} | ({"max_cost_usd": limit} if limit else {})
    recipe = with_key(TOO_LARGE, "budget", priced)
    if inherited:
        (tmp_path / "team.toml").write_text("[budget]\nprice_per_gpu_hour = 0.5\n")
        recipe = with_key(with_key(recipe, "budget.price_per_gpu_hour", None), "recipe.extends", "./team.toml")
    (line,) = lines(tmp_path, recipe, "E0402", "hardware.gpu =")
    assert ("remove `budget.price_per_gpu_hour`" in line) is not inherited
    found = compiled(tmp_path, applied(recipe, line), only_plan=True)
    told = [each.title for each in found.diagnostics if each.code == "E0403"] or [figures(found.plan)]
    assert all(text in line for text in told), line
    assert ("over budget" in line) is ("E0403" in codes(found)) is (limit is not None)
