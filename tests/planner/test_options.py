"""What a plan names beside itself: packed rows, fewer GPUs, a larger micro batch; each holds when it is taken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, with_key

from recipec.axes import ADAPTATIONS
from recipec.cli.plan import plan_text
from recipec.planner.advice.change import asking_for
from recipec.units import duration, usd

SHORT = with_key(BASES["lora-single"], "data.max_length", 2048)


def options(folder: Path, recipe: Tables) -> tuple[str, ...]:
    return compiled(folder, recipe, only_plan=True).plan.stages[0].options


@pytest.mark.parametrize(
    ("key", "value", "keeps"),
    [("train.attention", "torch_varlen", {}), ("train.packing", True, {"train.attention": "sdpa"})],
)
def test_packing_is_named_with_what_it_gives(tmp_path: Path, key: str, value: object, keeps: Tables) -> None:
    recipe = with_key(SHORT, "data.tokens_per_example", 250)
    for each, said in keeps.items():
        recipe = with_key(recipe, each, said)
    named = f"set `{key} = {json.dumps(value)}`: packed"
    (line,) = [line for line in options(tmp_path, recipe) if line.startswith(named)]
    before, after = (good(tmp_path, each).plan.stages[0].seconds for each in (recipe, with_key(recipe, key, value)))
    assert float(re.search(r"take (0\.\d+)x the time", line)[1]) == pytest.approx(after / before, abs=0.01)
    assert "recipec does not take it by itself" in line
    assert line in plan_text(json.loads(good(tmp_path, recipe).plan_json))


def test_packing_is_named_with_batches_of_as_many_examples(tmp_path: Path) -> None:
    """A global batch of 16 rows would be one of 16 packed sequences."""
    stated = {"attention": "sdpa", "global_batch_size": 16, "micro_batch_size": 2}
    recipe = with_key(with_key(SHORT, "data.tokens_per_example", 100), "train", stated)
    (line,) = [line for line in options(tmp_path, recipe) if line.startswith("set `train.packing = true`")]
    sets = dict(re.findall(r"`([\w.]+) = (\w+)`", line))
    assert sets == {"train.packing": "true", "train.global_batch_size": "2", "train.micro_batch_size": "1"}
    for key, value in sets.items():
        recipe = with_key(recipe, key, json.loads(value))
    assert not {"W0501", "W0504"} & set(codes(good(tmp_path, recipe)))


@pytest.mark.parametrize(
    ("key", "value"), [("train.packing", False), ("hardware.gpu", "t4"), ("model.name", "Qwen/Qwen3.5-4B")]
)
def test_packing_is_not_named_where_it_cannot_be(tmp_path: Path, key: str, value: object) -> None:
    """Where the recipe says no, the GPU has no such kernel and no gain with a mask, or layers are recurrent."""
    assert not [line for line in options(tmp_path, with_key(SHORT, key, value)) if "torch_varlen" in line]


@pytest.mark.parametrize(("model", "count"), [("meta-llama/Llama-3.1-8B", 8)])
def test_fewer_gpus_are_named_where_they_cost_clearly_less(tmp_path: Path, model: str, count: int) -> None:
    slow = with_key(with_key(BASES["full-fsdp"], "hardware.nodes", count), "hardware.network_gbps", 3200)
    slow = with_key(slow, "model.name", model)
    (line,) = [line for line in options(tmp_path, slow) if line.startswith("set `hardware.")]
    nodes, ratio, cost = re.fullmatch(
        r"set `hardware.nodes = (\d+)`: training takes (\S+)x the time at (\S+)x the cost; .*the whole run takes .*",
        line,
    ).groups()
    before, after = (
        compiled(tmp_path, each, only_plan=True).plan.stages[0]
        for each in (slow, with_key(slow, "hardware.nodes", int(nodes)))
    )
    assert after.seconds / before.seconds == pytest.approx(float(ratio), abs=0.06)
    assert float(cost) <= 0.9 and float(cost) == pytest.approx(
        after.seconds / before.seconds * int(nodes) / count, abs=0.01
    )


def test_a_larger_micro_batch_is_told_what_it_needs(tmp_path: Path) -> None:
    (line,) = [line for line in options(tmp_path, SHORT) if line.startswith("a micro batch of ")]
    size = int(line.split()[4])
    found = compiled(tmp_path, with_key(SHORT, "train.micro_batch_size", size), only_plan=True)
    (stage,) = found.plan.stages
    assert stage.layout.checkpointing, "without recomputation it needs more than there is"
    assert "GiB are usable" in line


@pytest.mark.parametrize("base", ["grpo", "ppo"])
def test_a_batch_of_more_answers_is_named_with_what_it_gives(tmp_path: Path, base: str) -> None:
    recipe = with_key(with_key(BASES[base], "alignment.generation", {"max_new_tokens": 1024}), "data.examples", 20_000)
    (line,) = [line for line in options(tmp_path, recipe) if line.startswith("set `train.global_batch_size = ")]
    size, ratio = re.search(r"= (\d+)`: answers .* takes (0\.\d+)x the time", line).groups()
    before, after = (
        compiled(tmp_path, each, only_plan=True).plan.stages[0]
        for each in (recipe, with_key(recipe, "train.global_batch_size", int(size)))
    )
    assert float(ratio) <= 0.9
    assert after.seconds / before.seconds == pytest.approx(float(ratio), abs=0.06)
    asked = with_key(recipe, "train.global_batch_size", 128)
    assert not [line for line in options(tmp_path, asked) if line.startswith("set `train.global_batch_size")]


def figures(folder: Path, recipe: Tables) -> tuple[float, str, str]:
    """Training seconds of a plan, and its whole run as other plans tell it."""
    plan = compiled(folder, recipe, only_plan=True).plan
    return plan.stages[0].seconds, duration(plan.seconds), usd(plan.cost_usd)


@pytest.mark.parametrize("base", ["grpo", "rloo", "ppo"])
def test_more_updates_of_a_generation_are_named_with_their_gain_and_their_price(tmp_path: Path, base: str) -> None:
    recipe = with_key(with_key(BASES[base], "alignment.generation", {"max_new_tokens": 1024}), "data.examples", 20_000)
    (line,) = [line for line in options(tmp_path, recipe) if line.startswith("set `alignment.generation.updates = ")]
    size, ratio = re.search(r"= (\d+)`: answers .* takes (0\.\d+)x the time", line).groups()
    asked = with_key(recipe, "alignment.generation.updates", int(size))
    (before, *now), (after, *then) = (figures(tmp_path, each) for each in (recipe, asked))
    assert float(ratio) <= 0.9
    assert after / before == pytest.approx(float(ratio), abs=0.06)
    assert f"the whole run takes {then[0]} instead of {now[0]} and {then[1]} instead of {now[1]}" in line
    steps = int(size) * (4 if base == "ppo" else 1)
    assert f"; {steps - 1} of {steps} steps " in line and "older weights" in line
    assert not [line for line in options(tmp_path, asked) if "generation.updates" in line]


def test_more_updates_are_not_named_where_answers_are_written_in_little_time(tmp_path: Path) -> None:
    few = with_key(BASES["grpo"], "alignment.generation", {"max_new_tokens": 16})
    stage = compiled(tmp_path, few, only_plan=True).plan.stages[0]
    assert stage.time.bound_by != "generation"
    assert not [line for line in stage.options if "generation.updates" in line]


def test_gpus_that_gain_little_are_named_with_what_fewer_cost(tmp_path: Path) -> None:
    """Eight GPUs write an answer no faster than one: each waits for its longest."""
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 8})
    recipe = with_key(recipe, "model.name", "Qwen/Qwen2.5-7B-Instruct")
    recipe = with_key(with_key(recipe, "alignment.generation", {"max_new_tokens": 2048}), "data.examples", 17_000)
    lines = [line for line in options(tmp_path, recipe) if line.startswith("set `hardware.gpus_per_node = 1`")]
    (before, *now), (after, *then) = (
        figures(tmp_path, each) for each in (recipe, with_key(recipe, "hardware.gpus_per_node", 1))
    )
    assert after < 1.5 * before
    assert f"; 8 GPUs are only {after / before:.1f} times as fast as 1; " in lines[0]
    assert lines[0].endswith(f"instead of {now[0]} and {then[1]} instead of {now[1]}")


@pytest.mark.parametrize("priority", ["memory", None])
def test_an_adaptation_is_asked_for_by_lines_that_give_it(tmp_path: Path, priority: str | None) -> None:
    """From full fine-tuning LoRA is another family, from QLoRA another base."""
    recipe = with_key(BASES["lora-single"], "hardware", {"gpu": "h100", "gpus_per_node": 8})
    recipe = with_key(recipe, "data.examples", 200_000)
    recipe = with_key(recipe, "goal.priority", priority) if priority else recipe
    chosen = compiled(tmp_path, recipe, only_plan=True).plan.stages[0].layout.adapts
    for row in (ADAPTATIONS[name] for name in ("lora", "qlora", "full") if name != chosen.name):
        for key, value in asking_for(row, chosen).sets:
            recipe = with_key(recipe, key, value)
        assert compiled(tmp_path, recipe, only_plan=True).plan.stages[0].layout.adapts is row
        recipe = {**recipe, "train": {}}
