"""What holds for every recipe: more hardware is never slower, wishes win, nothing depends on the order of keys."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
from compiling import BASES, Tables, codes, compiled, good, shape, texts, with_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recipec.planner import StagePlan
from recipec.planner.search.bounds import AS_FAST, TIE

EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MODELS = st.sampled_from(
    ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-3B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-32B")
)
LENGTHS = st.sampled_from((256, 1024, 4096))
ADAPTATIONS = st.sampled_from((("lora", "none"), ("lora", "nf4"), ("full", "none")))
BATCHES = st.sampled_from((16, 32, 64, 128))


@st.composite
def recipes(draw: st.DrawFn) -> Tables:
    """An instruction recipe with everything fixed that decides what is learned."""
    recipe = with_key(BASES["lora-single"], "model.name", draw(MODELS))
    recipe = with_key(recipe, "data.max_length", draw(LENGTHS))
    adaptation, quantization = draw(ADAPTATIONS)
    fixed = {"adaptation": adaptation, "quantization": quantization, "global_batch_size": draw(BATCHES)}
    return with_key(recipe, "train", fixed)


def _stage(folder: Path, recipe: Tables) -> StagePlan | None:
    plan = compiled(folder, recipe, only_check=True).plan
    return plan.stages[0] if plan else None


@EXAMPLES
@given(recipe=recipes(), vram=st.lists(st.sampled_from((16, 24, 40, 48, 80, 140)), min_size=2, max_size=2, unique=True))
def test_more_memory_is_never_slower(tmp_path: Path, recipe: Tables, vram: list[int]) -> None:
    small, large = (_stage(tmp_path, with_key(recipe, "hardware", {"vram_gib": size})) for size in sorted(vram))
    _assert_not_worse(small, large)


@EXAMPLES
@given(recipe=recipes(), gpus=st.lists(st.sampled_from((1, 2, 4, 8)), min_size=2, max_size=2, unique=True))
def test_more_gpus_are_never_slower(tmp_path: Path, recipe: Tables, gpus: list[int]) -> None:
    hardware = [{"gpu": "h100", "gpus_per_node": count} for count in sorted(gpus)]
    _assert_not_worse(*(_stage(tmp_path, with_key(recipe, "hardware", part)) for part in hardware))


# Model, adaptation, quantization, global batch and GPUs where a small step is bound by slow links or tight memory.
LINKED = [("Qwen/Qwen2.5-0.5B", "full", "none", 16, (2, 4, 8)), ("Qwen/Qwen2.5-32B", "lora", "nf4", 64, (1, 2, 4))]


@pytest.mark.parametrize(("model", "adaptation", "quantization", "batch", "counts"), LINKED)
def test_gpus_that_do_not_help_stay_idle(
    tmp_path: Path, model: str, adaptation: str, quantization: str, batch: int, counts: tuple[int, ...]
) -> None:
    train = {"adaptation": adaptation, "quantization": quantization, "global_batch_size": batch}
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "train", train)
    hardware = [{"gpu": "rtx-4090", "gpus_per_node": count} for count in counts]
    plans = [_stage(tmp_path, with_key(recipe, "hardware", part)) for part in hardware]
    for small, large in itertools.pairwise(plans):
        _assert_not_worse(small, large)


def _assert_not_worse(small: StagePlan | None, large: StagePlan | None) -> None:
    """Predicted times within TIE count as equal where layouts differ in kind: the planner takes the simpler one."""
    if small is not None:
        assert large is not None, "more hardware makes it impossible"
        tie = 2 * AS_FAST if _kind(small) == _kind(large) else TIE
        assert large.seconds <= small.seconds * (1 + tie)


def _kind(stage: StagePlan) -> tuple[object, ...]:
    """What one layout may be simpler in than another."""
    layout = stage.layout
    return layout.strategy, layout.mesh, layout.adapts.name, layout.optimizer, layout.offload, layout.activation_offload


# Model, its training, and GiB of one device, the smallest of which have no room for activations.
ROOMS = [
    ("Qwen/Qwen3-8B", {"adaptation": "lora", "quantization": "nf4"}, "vram_gib", (25, 26, 28, 32)),
    ("Qwen/Qwen3-1.7B", {"adaptation": "full", "optimizer": "adamw"}, "vram_gib", (36, 40, 48, 80)),
    ("Qwen/Qwen3-0.6B", {"adaptation": "lora", "quantization": "none"}, "host_memory_gib", (6, 7, 8, 12)),
]


@pytest.mark.parametrize(("model", "train", "key", "sizes"), ROOMS)
def test_layers_are_recomputed_where_that_is_faster_also_where_they_need_not_be(
    tmp_path: Path, model: str, train: Tables, key: str, sizes: tuple[int, ...]
) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "train", train)
    recipe = with_key(
        with_key(recipe, "data.max_length", 2048), "hardware", {} if key == "vram_gib" else {"gpu": "cpu"}
    )
    stages = [_stage(tmp_path, with_key(recipe, f"hardware.{key}", size)) for size in sizes]
    for small, large in itertools.pairwise(stages):
        assert small is not None and large is not None
        assert large.seconds <= small.seconds * (1 + 2 * AS_FAST)


@EXAMPLES
@given(recipe=recipes(), gpus=st.sampled_from((1, 2, 4, 8)), micro=st.sampled_from((None, 1, 3, 4)))
def test_a_chosen_plan_fits_and_keeps_the_batch_or_says_so(
    tmp_path: Path, recipe: Tables, gpus: int, micro: int | None
) -> None:
    recipe = with_key(recipe, "hardware.gpus_per_node", gpus)
    stage = _stage(tmp_path, with_key(recipe, "train.micro_batch_size", micro) if micro else recipe)
    if stage is not None:
        assert stage.memory.peak_allocated_bytes <= stage.usable_bytes
        target, reached = stage.decisions["global_batch_size"].value, stage.layout.global_batch
        said = stage.decisions["gradient_accumulation"].because
        assert reached == target or (str(target) in said and str(reached) in said)


@EXAMPLES
@given(recipe=recipes(), hours=st.floats(0.01, 100), factor=st.floats(1, 10))
def test_a_higher_limit_never_forbids(tmp_path: Path, recipe: Tables, hours: float, factor: float) -> None:
    tight, loose = (with_key(recipe, "budget", {"max_hours": limit}) for limit in (hours, hours * factor))
    assert not (compiled(tmp_path, tight).files and not compiled(tmp_path, loose).files)


@pytest.mark.parametrize("name", BASES)
def test_the_order_of_keys_does_not_matter(tmp_path: Path, name: str) -> None:
    backwards = {
        section: dict(reversed(table.items())) if isinstance(table, dict) else table
        for section, table in BASES[name].items()
    }
    assert texts(good(tmp_path, backwards)) == texts(shape(name))


# Key -> value -> the decision that carries it.
WISHES: dict[str, tuple[Any, str]] = {
    "train.adaptation": ("full", "adaptation"),
    "train.quantization": ("nf4", "quantization"),
    "train.strategy": ("zero2", "strategy"),
    "train.offload": ("cpu", "offload"),
    "train.micro_batch_size": (2, "micro_batch_size"),
    "train.global_batch_size": (64, "global_batch_size"),
    "train.activation_checkpointing": (False, "checkpointing"),
    "train.learning_rate": (3e-4, "learning_rate"),
    "train.max_steps": (100, "max_steps"),
    "data.max_length": (512, "max_length"),
    "recipe.seed": (7, "seed"),
}


@pytest.mark.parametrize("key", WISHES)
def test_a_wish_wins_and_says_where_it_was_made(tmp_path: Path, key: str) -> None:
    value, id = WISHES[key]
    recipe = with_key(with_key(BASES["lora-ddp"], "model.name", "Qwen/Qwen2.5-0.5B"), key, value)
    plan = good(tmp_path, recipe).plan
    assert plan
    decision = plan.stages[0].decisions[id]
    assert (decision.value, decision.origin, decision.key) == (value, "recipe", key)
    assert decision.where.startswith("recipe.toml:") and decision.where in decision.because


def test_overridable_decisions_have_keys_of_the_language(tmp_path: Path) -> None:
    """A key that a decision names can be written."""
    from recipec.recipe.schema import Recipe

    for base in BASES.values():
        plan = good(tmp_path, base).plan
        assert plan
        for decision in (d for stage in plan.stages for d in stage.decisions.values() if d.key):
            model: Any = Recipe
            for part in decision.key.split("."):
                fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
                assert part in fields, f"{decision.id}: {decision.key}"
                model = next((one for one in get_args(fields[part]) if one is not NoneType), fields[part])


def test_a_stage_overrides_what_holds_for_all(tmp_path: Path) -> None:
    recipe = with_key(BASES["sft-dpo"], "train", {"learning_rate": 4e-6, "sft": {"learning_rate": 1e-4, "epochs": 2}})
    plan = good(tmp_path, recipe).plan
    assert plan
    sft, dpo = plan.stages
    assert (sft.value("learning_rate"), dpo.value("learning_rate")) == (1e-4, 4e-6)
    assert (sft.value("epochs"), dpo.decisions["epochs"].origin) == (2, "rule")


@pytest.mark.parametrize("pair", itertools.pairwise((8, 64, 512, 1024)))
def test_lengths_and_steps_grow_together(tmp_path: Path, pair: tuple[int, int]) -> None:
    """A longer limit never makes the memory estimate smaller."""
    recipe = with_key(BASES["lora-single"], "train", {"micro_batch_size": 4, "activation_checkpointing": False})
    short, long = (_stage(tmp_path, with_key(recipe, "data.max_length", length)) for length in pair)
    assert short and long
    assert short.memory.peak_allocated_bytes <= long.memory.peak_allocated_bytes
    assert "E0402" not in codes(compiled(tmp_path, recipe))
