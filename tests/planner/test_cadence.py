"""How often a run evaluates and saves: the plan counts what train.py does, also where a generation teaches steps."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.rules import intervals

KEYS = {"data.examples": 1_000, "train.global_batch_size": 128}
SEVERAL = {"alignment.generation.updates": 2}
CASES = {
    "sft": ("lora-single", {}),
    "ppo": ("ppo", {}),
    "ppo in minibatches": ("ppo", SEVERAL),
    "grpo": ("grpo", {}),
    "grpo in 2 updates": ("grpo", SEVERAL),
    "rloo in 2 updates": ("rloo", SEVERAL),
    "ppo, often": ("ppo", SEVERAL | {"train.eval_every": 0.01, "train.save_every": 0.02}),
}


def recipe_of(base: str, keys: Tables) -> Tables:
    recipe = BASES[base]
    for key, value in (KEYS | keys).items():
        recipe = with_key(recipe, key, value)
    return recipe


def interval(text: str, name: str, steps: int) -> int:
    """Of the whole training, in steps: transformers rounds a share up."""
    found = float(re.search(rf"\b{name}=([\d.]+)", text)[1])
    return ceil(found * steps) if found < 1 else int(found)


def times(because: str) -> int:
    return int(because.split()[0])


@pytest.mark.parametrize("case", CASES)
def test_the_plan_counts_the_evaluations_and_checkpoints_of_train_py(tmp_path: Path, case: str) -> None:
    """TrainerCallback evaluates and saves at every multiple of its interval, and at the last step."""
    compilation = good(tmp_path, recipe_of(*CASES[case]))
    emitted, plan = texts(compilation), compilation.plan.stages[0]
    because = {part.name: part.because for part in plan.parts}
    every = {name: interval(emitted["train.py"], name, plan.steps) for name in ("eval_steps", "save_steps")}
    assert times(because["evaluations"]) == 1 + ceil(plan.steps / every["eval_steps"])
    assert times(because["checkpoints"]) == ceil(plan.steps / every["save_steps"])
    best = "the one with the" in emitted["README.md"].split("Best checkpoint by")[1].splitlines()[0]
    assert best == (every["save_steps"] < plan.steps)
    taught = intervals.steps_taught({id: decision.value for id, decision in plan.decisions.items()})
    assert every["eval_steps"] % taught == every["save_steps"] % every["eval_steps"] == 0
    look = int(re.search(r"--max-steps (\d+)", emitted["README.md"])[1])
    assert look % taught == 0 and look <= plan.steps


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("ppo", "128 answers for every 4 steps, "),
        ("ppo in minibatches", "256 answers for every 8 steps, "),
        ("grpo", "128 answers for each step, "),
        ("grpo in 2 updates", "256 answers for every 2 steps, "),
    ],
)
def test_the_plan_tells_the_answers_of_a_generation(tmp_path: Path, case: str, said: str) -> None:
    """A share of them for each step would be a number that no program writes."""
    compilation = good(tmp_path, recipe_of(*CASES[case]))
    written = next(part for part in compilation.plan.stages[0].parts if part.name == "generation")
    assert written.because.startswith(said), written.because


def test_few_steps_are_explained_by_all_passes_over_the_answers(tmp_path: Path) -> None:
    """310 prompts and 128 answers are two generations; eight steps come of four passes over each."""
    found = compiled(tmp_path, recipe_of("ppo", {"data.examples": 320})).diagnostics
    label = next(each.labels[0].message for each in found if each.code == "W0508")
    assert "with 1 answer each, learned from 4 times, and a global batch of 128 answers give 8 steps" in label
