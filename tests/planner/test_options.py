"""What a plan names beside itself: packed rows, fewer GPUs, a larger micro batch; each holds when it is taken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, Tables, codes, compiled, good, with_key

from recipec.axes import ADAPTATIONS
from recipec.catalog.gpus import gpu
from recipec.cli.plan import plan_text
from recipec.layout import Mesh
from recipec.planner.advice.change import asking_for
from recipec.planner.advice.smaller_states import little_left
from recipec.planner.plan import Plan
from recipec.planner.search.candidates import usable_bytes
from recipec.units import duration, usd

SHORT = with_key(BASES["lora-single"], "data.max_length", 2048)


def options(folder: Path, recipe: Tables) -> tuple[str, ...]:
    return compiled(folder, recipe, only_plan=True).plan.stages[0].options


_PAIRS = {**BASES["ppo"]["data"], "preferences": "pairs.jsonl"}
_BEFORE_PPO = BASES["ppo"] | {"data": _PAIRS, "alignment": {"method": "ppo"}, "hardware": {"gpu": "rtx-4090"}}
_ALONE = BASES["reward"] | {"model": BASES["ppo"]["model"]}


@pytest.mark.parametrize(("recipe", "named"), [(_ALONE, True), (_BEFORE_PPO, False)])
def test_a_quantized_base_is_named_where_all_stages_can_have_it(tmp_path: Path, recipe: Tables, named: bool) -> None:
    """A value head is not put on a quantized base, and [train] holds for the reward model's stage and for PPO's."""
    found = options(tmp_path, recipe)
    assert any(line.startswith('set `train.quantization = "nf4"`') for line in found) is named


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


@pytest.mark.parametrize(("micro_batch", "padded"), [(1, False), (4, True)])
def test_packing_says_why_it_is_faster(tmp_path: Path, micro_batch: int, padded: bool) -> None:
    """A micro batch of one row has no padding; packed, its step is fuller."""
    rows = [{"prompt": f"Question {n}?", "completion": "word " * (400 if n % 10 == 0 else 10)} for n in range(400)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = with_key(SHORT, "data", {"train": "rows.jsonl", "examples": 5_000, "max_length": 1024})
    recipe = with_key(with_key(recipe, "train.sampling", "random"), "train.micro_batch_size", micro_batch)
    (line,) = [line for line in options(tmp_path, recipe) if "torch_varlen" in line]
    assert bool(re.search(r"\b\d+% of the tokens of a batch are padding now", line)) is padded
    assert re.search(r"a micro step has [\d,]+ tokens instead of about \d+[,;]?", line)
    assert "no padding" not in line


@pytest.mark.parametrize(("key", "value"), [("hardware.gpu", "t4"), ("model.name", "Qwen/Qwen3.5-4B")])
def test_packing_is_not_named_where_it_cannot_be(tmp_path: Path, key: str, value: object) -> None:
    """Where the GPU has no such kernel and no gain with a mask, or layers are recurrent."""
    assert not [line for line in options(tmp_path, with_key(SHORT, key, value)) if "torch_varlen" in line]


@pytest.mark.parametrize(("rows", "pays"), [(300, False), (5_000, False), (50_000, True)])
def test_packing_is_not_named_where_the_last_step_makes_a_run_longer(tmp_path: Path, rows: int, pays: bool) -> None:
    """Of few rows the last step of a pass, or all that is not training, is a large part of the run."""
    recipe = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-14B")
    recipe = with_key(with_key(recipe, "data.examples", rows), "hardware", {"gpu": "l40s", "gpus_per_node": 3})
    few = [with_key(recipe, "data.tokens_per_example", tokens) for tokens in range(50, 600, 100)]
    named = [(each, line) for each in few for line in options(tmp_path, each) if "packed rows" in line]
    assert bool(named) is pays
    for before, line in named:
        after = before
        for key, value in re.findall(r"`([\w.]+) = (\S+)`", line):
            after = with_key(after, key, json.loads(value))
        seconds, packed = (good(tmp_path, each).plan.stages[0].run_seconds for each in (before, after))
        assert packed <= 0.95 * seconds


@pytest.mark.parametrize(("model", "count"), [("meta-llama/Llama-3.1-8B", 8)])
def test_fewer_gpus_are_named_where_they_cost_clearly_less(tmp_path: Path, model: str, count: int) -> None:
    slow = with_key(with_key(BASES["full-fsdp"], "hardware.nodes", count), "hardware.network_gbps", 800)
    slow = with_key(with_key(slow, "model.name", model), "train.global_batch_size", 512)
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


ON_8_GIB = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "data": {"train": "chat.jsonl", "examples": 5_000, "tokens_per_example": 400, "max_length": 1024},
    "hardware": {"vram_gib": 8},
    "train": {"adaptation": "qlora"},
}
IN_8_BITS = 'set `train.optimizer = "adamw-8bit"`: '


def test_8_bit_states_of_an_adapter_are_named_where_they_leave_memory_free(tmp_path: Path) -> None:
    (line,) = [line for line in options(tmp_path, ON_8_GIB) if line.startswith(IN_8_BITS)]
    asked = with_key(ON_8_GIB, "train.optimizer", "adamw-8bit")
    before, after = (
        f"{good(tmp_path, each).plan.stages[0].memory.peak_allocated_bytes / 2**30:.1f}" for each in (ON_8_GIB, asked)
    )
    assert f"training then allocates {after} GiB instead of {before} GiB, and takes the same time" in line
    assert float(after) < float(before)
    because = good(tmp_path, ON_8_GIB).plan.stages[0].decisions["optimizer"].because
    assert "8-bit moments would make room" in because and "little" not in because
    assert not [line for line in options(tmp_path, asked) if "adamw-8bit" in line]
    assert not [line for line in options(tmp_path, with_key(ON_8_GIB, "hardware.vram_gib", 24)) if IN_8_BITS in line]


def test_8_bit_states_of_an_adapter_are_named_where_they_make_it_faster(tmp_path: Path) -> None:
    """A micro batch of 2 then fits."""
    large = with_key(with_key(ON_8_GIB, "model.name", "meta-llama/Llama-3.3-70B-Instruct"), "data.max_length", 2048)
    large = with_key(large, "hardware", {"gpu": "rtx-a6000"})
    (line,) = [line for line in options(tmp_path, large) if line.startswith(IN_8_BITS)]
    before, now, _ = figures(tmp_path, large)
    after, then, _ = figures(tmp_path, with_key(large, "train.optimizer", "adamw-8bit"))
    assert f"and training takes {after / before:.2f}x the time; the whole run takes {then} instead of {now}" in line
    assert after < 0.95 * before


def test_8_bit_states_that_save_less_than_a_fiftieth_are_not_named(tmp_path: Path) -> None:
    """Of a small adapter, on a GPU whose memory it fills."""
    small = with_key(with_key(ON_8_GIB, "train.lora", {"rank": 4}), "hardware.vram_gib", 7.6)
    now, then = (
        compiled(tmp_path, each, only_plan=True).plan.stages[0]
        for each in (small, with_key(small, "train.optimizer", "adamw-8bit"))
    )
    before, after = (each.memory.peak_allocated_bytes for each in (now, then))
    assert 0.98 * before < after < before, "the case shows nothing"
    assert not [line for line in now.options if line.startswith(IN_8_BITS)]


@pytest.mark.parametrize(
    ("card", "gib", "little"),
    [("h100", 1.4, True), ("h100", 1.6, False), ("rtx-3060-12gb", 0.24, True), ("rtx-3060-12gb", 0.26, False)],
)
def test_little_memory_is_a_fiftieth_of_the_usable_or_a_quarter_of_a_gib(card: str, gib: float, little: bool) -> None:
    room = usable_bytes(gpu(card), 1)
    filled = SimpleNamespace(peak_allocated_bytes=room - gib * 2**30)
    candidate = SimpleNamespace(layout=SimpleNamespace(mesh=Mesh(1)), memory=filled)
    assert little_left(gpu(card), candidate) is little  # type: ignore[arg-type]


def test_a_plan_that_fills_a_gpu_with_a_screen_says_so(tmp_path: Path) -> None:
    told = plan_text(json.loads(good(tmp_path, ON_8_GIB).plan_json))
    (line,) = [line for line in told.splitlines() if "of the usable memory is left" in line]
    assert re.match(r"    only \d+ MiB of the usable memory is left: a screen ", line)
    roomy = plan_text(json.loads(good(tmp_path, with_key(ON_8_GIB, "hardware.vram_gib", 24)).plan_json))
    assert "usable memory is left" not in roomy


def test_a_faster_engine_is_named_with_its_whole_run(tmp_path: Path) -> None:
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 2})
    recipe = with_key(with_key(recipe, "alignment.generation", {"max_new_tokens": 1024}), "data.examples", 8_000)
    (line,) = [line for line in options(tmp_path, recipe) if line.startswith("set `alignment.generation.engine = ")]
    engine = line.split('"')[1]
    (_, *now), (_, *then) = (
        figures(tmp_path, each) for each in (recipe, with_key(recipe, "alignment.generation.engine", engine))
    )
    assert f"the whole run takes {then[0]} instead of {now[0]} and {then[1]} instead of {now[1]}" in line
    assert "needs the package vllm" in line and "does not take it by itself" in line
    for asked in ("transformers", engine):
        stated = with_key(recipe, "alignment.generation.engine", asked)
        assert any("generation.engine" in line for line in options(tmp_path, stated)) == (asked != engine)


def test_of_two_engines_the_one_with_the_cheaper_run_is_named(tmp_path: Path) -> None:
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 2})
    recipe = with_key(recipe, "alignment.generation", {"max_new_tokens": 128})
    taken, beside = (run_with(tmp_path, recipe, engine) for engine in ("vllm", "vllm-server"))
    assert taken.cost_usd < beside.cost_usd < 0.9 * run_with(tmp_path, recipe, "transformers").cost_usd
    (line,) = [line for line in options(tmp_path, recipe) if "generation.engine" in line]
    assert line.startswith('set `alignment.generation.engine = "vllm"`: ')


def test_an_engine_whose_run_is_hardly_shorter_is_not_named(tmp_path: Path) -> None:
    """Long prompts and answers of a few tokens: the difference is within what the estimates can tell."""
    recipe = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 2})
    recipe = with_key(recipe, "alignment.generation", {"max_new_tokens": 8})
    recipe = with_key(with_key(recipe, "data.max_length", 2048), "data.tokens_per_example", 1_900)
    now, then = (run_with(tmp_path, recipe, engine).seconds for engine in ("transformers", "vllm"))
    assert 0.9 * now < then < now, "the case shows nothing"
    assert not [line for line in options(tmp_path, recipe) if "generation.engine" in line]


def run_with(folder: Path, recipe: Tables, engine: str) -> Plan:
    return compiled(folder, with_key(recipe, "alignment.generation.engine", engine), only_plan=True).plan


def test_a_larger_batch_of_answers_that_hardly_saves_time_is_not_named(tmp_path: Path) -> None:
    """vLLM writes so fast that the time is that of learning, which no batch makes less."""
    recipe = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen2.5-7B-Instruct"), "data.examples", 20_000)
    recipe = with_key(with_key(recipe, "data.max_length", 2048), "data.tokens_per_example", 1_500)
    recipe = with_key(recipe, "alignment.generation", {"max_new_tokens": 512, "engine": "vllm"})
    now = compiled(tmp_path, recipe, only_plan=True).plan.stages[0]
    doubled = with_key(recipe, "train.global_batch_size", 2 * now.layout.global_batch)
    then = compiled(tmp_path, doubled, only_plan=True).plan.stages[0]
    assert 0.9 * now.seconds < then.seconds < now.seconds, "the case shows nothing"
    assert not [line for line in now.options if line.startswith("set `train.global_batch_size = ")]
