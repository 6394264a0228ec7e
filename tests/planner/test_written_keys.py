"""What is proposed names the keys that a recipe reads: those of [train.STAGE] where they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_less_waiting import recipe as slow
from test_mending import applied

from recipec.planner.advice.change import setting
from recipec.planner.advice.keys import as_written
from recipec.planner.planner import contexts

LORA = BASES["lora-single"]
TWO = BASES["sft-dpo"]
MOE = {**LORA, "model": {"name": "Qwen/Qwen3-30B-A3B"}, "hardware": {"gpu": "h200"}}

NEW: Tables = {  # a new domain, of which all weights learn where they fit
    **LORA,
    "goal": {"task": "continue-pretrain", "new_domain": True},
    "model": {"name": "allenai/Olmo-3-1025-7B"},
    "data": {"train": {"hub": "a/b"}, "examples": 9_000_000, "tokens_per_example": 2_200, "max_length": 8_192},
    "hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "network_gbps": 3_200},
}
SLOW = slow()  # full fine-tuning on four nodes


def on(gpus: int, recipe: Tables = LORA) -> Tables:
    return with_key(recipe, "hardware.gpus_per_node", gpus)


Keys = dict[str, Any]
CASES: dict[str, tuple[Tables, Keys, str]] = {  # the recipe, what it sets for its stage, and who tells it
    "fewer passes": (with_key(LORA, "budget.max_hours", 0.28), {"epochs": 3}, "E0403"),
    "fewer steps": (with_key(LORA, "budget.max_hours", 0.3), {"max_steps": 2000}, "E0403"),
    "packed rows": (
        with_key(with_key(LORA, "data.max_length", 2048), "data.tokens_per_example", 250),
        {"attention": "sdpa", "global_batch_size": 16, "micro_batch_size": 2},
        "option",
    ),
    "a batch that is not met": (on(4), {"global_batch_size": 35}, "W0510"),
    "a micro batch that does not fit": (LORA, {"micro_batch_size": 512, "global_batch_size": 1024}, "E0402"),
    "saves between evaluations": (LORA, {"save_every": 0.5, "eval_every": 0.2}, "E0405"),
    "idle GPUs": (on(8), {"global_batch_size": 4, "micro_batch_size": 1}, "W0503"),
    "a network that is waited for": (SLOW, {"global_batch_size": 64}, "W0519"),
    "few steps": (with_key(LORA, "data.examples", 100), {"epochs": 1}, "W0508"),
    "an adapter of experts": (MOE, {"lora": {"dropout": 0.05}}, "E0405"),
    "what decides the training": (NEW, {"micro_batch_size": 24, "global_batch_size": 384}, "W0545"),
    "answers at once": (
        with_key(with_key(BASES["grpo"], "hardware.gpu", "rtx-4090"), "model.name", "Qwen/Qwen3-4B"),
        {"global_batch_size": 256},
        "E0402",
    ),
}


def stage_of(recipe: Tables) -> str:
    return {"instruct": "sft", "align": "grpo"}.get(recipe["goal"]["task"], recipe["goal"]["task"])


def lines(folder: Path, recipe: Tables) -> list[str]:
    """All that is proposed, and by whom: lines of diagnostics and options of the plan."""
    found = compiled(folder, recipe, only_plan=True)
    told = [f"{each.code} {line}" for each in found.diagnostics for line in (each.title, *each.help)]
    return [*told, *(f"option {each}" for stage in (found.plan.stages if found.plan else ()) for each in stage.options)]


def flat(keys: Keys, before: str = "") -> Iterable[str]:
    for key, value in keys.items():
        yield f"{before}{key}"
        yield from flat(value, f"{before}{key}.") if isinstance(value, dict) else ()


@pytest.mark.parametrize("case", CASES)
def test_keys_of_the_stage_are_named_where_they_stand(tmp_path: Path, case: str) -> None:
    """The lines are those of the recipe with its keys in [train], and give the same when they are applied."""
    base, keys, by = CASES[case]
    stage = stage_of(base)
    general = {**base, "train": {**base.get("train", {}), **keys}}
    own = {**base, "train": {**base.get("train", {}), stage: keys}}
    named = re.compile(rf"\btrain\.({'|'.join(map(re.escape, flat(keys)))})\b(?!\.)")
    before = lines(tmp_path, general)
    told = [named.sub(rf"train.{stage}.\1", line) for line in before]
    assert lines(tmp_path, own) == told
    ours = [(was, line) for was, line in zip(before, told, strict=True) if was != line and line.startswith(by)]
    assert ours, told
    for was, line in ours:
        if re.match(r"\w+ (set|remove) `", line):
            one, other = (
                compiled(tmp_path, applied(recipe, text.partition(" ")[2]), only_plan=True).plan
                for recipe, text in ((general, was), (own, line))
            )
            assert one and other and (one.seconds, one.cost_usd) == (other.seconds, other.cost_usd)


def test_decisions_of_a_single_stage_name_its_own_key(tmp_path: Path) -> None:
    plan = compiled(tmp_path, with_key(LORA, "train.sft.epochs", 2), only_plan=True).plan
    assert plan
    decided = plan.stages[0].decisions
    assert (decided["epochs"].key, decided["learning_rate"].key) == ("train.sft.epochs", "train.learning_rate")


@pytest.mark.parametrize(
    ("train", "meant", "keys"),
    [
        ({}, 2, ["train.eval_every"]),
        ({"dpo": {"eval_every": 0.5}}, 2, ["train.eval_every", "train.dpo.eval_every"]),
        ({}, 1, ["train.sft.eval_every"]),
        ({"eval_every": 0.5}, 1, ["train.sft.eval_every"]),
    ],
)
def test_a_key_of_several_stages_is_that_of_all_of_them(
    tmp_path: Path, train: Keys, meant: int, keys: list[str]
) -> None:
    found = compiled(tmp_path, with_key(TWO, "train", train), only_plan=True)
    assert found.recipe and found.facts
    given = contexts(found.recipe, found.facts)
    change = as_written(setting(train__eval_every=0.25), *given[:meant])
    assert [key for key, _ in change.sets] == keys
    change = as_written(setting(train__epochs=1), *given)
    assert [key for key, _ in change.sets] == ["train.sft.epochs", "train.dpo.epochs"]
