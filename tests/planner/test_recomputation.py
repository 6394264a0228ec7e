"""Which layers are recomputed and where their inputs wait: what the planner chooses, and what a recipe may fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, with_key
from msgspec.structs import replace

from recipec.catalog.models import model
from recipec.estimate.memory import step_memory
from recipec.layout import Layout
from recipec.planner import StagePlan
from recipec.planner.search import measures
from recipec.planner.search.layouts import layouts

SMALL = {"micro_batch_size": 1, "activation_checkpointing": False}
LONG = {"data.max_length": 8192, "data.tokens_per_example": 6000, "hardware.gpu": "a100-80gb"}


def stage(folder: Path, **keys: Any) -> StagePlan:
    recipe = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-8B")
    for key, value in {**LONG, **{key.replace("__", "."): value for key, value in keys.items()}}.items():
        recipe = with_key(recipe, key, value)
    plan = compiled(folder, recipe, only_check=True).plan
    assert plan
    return plan.stages[0]


def test_speed_first_recomputes_only_what_memory_asks_for(tmp_path: Path) -> None:
    every, some = stage(tmp_path), stage(tmp_path, goal__priority="speed")
    assert (every.value("recompute_every"), some.value("recompute_every")) == (1, 2)
    assert some.seconds < every.seconds
    assert not some.layout.activation_offload


def test_some_layers_are_recomputed_only_where_states_are_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Layout] = []
    monkeypatch.setattr(measures, "layouts", lambda *asked: [*map(_noted(tried), layouts(*asked))])
    assert compiled(tmp_path, with_key(BASES["zero3-offload"], "goal.priority", "speed"), only_plan=True).plan
    assert {layout.recompute_every for layout in tried if layout.offload == "cpu"} == {1}
    stage(tmp_path, goal__priority="speed")
    assert {layout.recompute_every for layout in tried if layout.offload == "none"} > {1}


def _noted(tried: list[Layout]) -> Callable[[Layout], Layout]:
    return lambda layout: tried.append(layout) or layout


def test_activations_leave_the_device_only_where_nothing_else_fits(tmp_path: Path) -> None:
    wide, narrow = (stage(tmp_path, hardware__gpu=gpu, data__max_length=32768) for gpu in ("a100-80gb", "rtx-4090"))
    assert (wide.layout.activation_offload, narrow.layout.activation_offload) == (False, True)
    assert narrow.memory.host_bytes > 0 and narrow.time.terms["offload"] > 0
    kept = [other for other in narrow.rejected if other.seconds is not None and other.layout.on_device]
    assert not kept


def test_recomputing_more_layers_saves_memory_and_takes_time(tmp_path: Path) -> None:
    found = [stage(tmp_path, train={"recompute_every": every, "micro_batch_size": 1}) for every in (1, 2, 4)]
    peaks = [plan.memory.peak_allocated_bytes for plan in found]
    assert peaks == sorted(peaks) and peaks[0] < peaks[-1]
    times = [plan.seconds for plan in found]
    assert times == sorted(times, reverse=True) and times[0] > times[-1]


@pytest.mark.parametrize("key", ["recompute_every", "activation_offload"])
def test_to_say_how_is_to_want_it(tmp_path: Path, key: str) -> None:
    value = {"recompute_every": 3, "activation_offload": True}[key]
    plan = stage(tmp_path, goal__priority="speed", data__max_length=512, train={key: value})
    decisions = plan.decisions
    assert decisions["checkpointing"].value is True
    assert (decisions[key].value, decisions[key].origin) == (value, "recipe")
    assert decisions["checkpointing"].key == decisions[key].key == f"train.{key}"


def test_what_stays_on_the_device_wants_nothing(tmp_path: Path) -> None:
    plan = stage(tmp_path, goal__priority="speed", data__max_length=512, train={"activation_offload": False})
    assert plan.decisions["checkpointing"].value is False


@pytest.mark.parametrize(
    ("base", "train", "code"),
    [
        ("full-fsdp", {"strategy": "fsdp", "recompute_every": 2}, None),
        ("full-fsdp", {"strategy": "fsdp", "activation_offload": True}, None),
        ("dpo-full", {"strategy": "zero2", "activation_offload": True}, "E0405"),
        ("dpo-full", {"strategy": "fsdp", "recompute_every": 2}, "E0405"),
        ("lora-ddp", {"adaptation": "lora", "strategy": "fsdp", "activation_offload": True}, None),
        ("lora-ddp", {"strategy": "zero3", "activation_offload": True, "recompute_every": 4}, None),
    ],
)
def test_what_runs_with_which_sharding(tmp_path: Path, base: str, train: dict[str, Any], code: str | None) -> None:
    recipe = with_key(with_key(BASES[base], "hardware.gpus_per_node", 2), "train", train)
    found = [name for name in codes(compiled(tmp_path, recipe)) if name.startswith("E")]
    assert found == ([code] if code else [])


def test_more_rows_are_evaluated_at_once_than_trained_where_activations_are_kept(tmp_path: Path) -> None:
    """An evaluation keeps none of them; a long row keeps a GPU busy by itself."""
    found = [
        stage(tmp_path, data__tokens_per_example=mean, hardware__gpu="b200", data__max_length=4096, train=SMALL)
        for mean in (500, 4096)
    ]
    short, long = (plan.value("eval_batch_size") for plan in found)
    assert (short, long) == (16, 1)


def test_an_evaluation_fits_with_rows_of_full_length(tmp_path: Path) -> None:
    recipe = with_key(BASES["full-fsdp"], "train", {"micro_batch_size": 1, "activation_checkpointing": True})
    for length in (1024, 65536):
        compilation = compiled(tmp_path, with_key(recipe, "data.max_length", length))
        plan = compilation.plan.stages[0]
        layout = replace(plan.layout, micro_batch=plan.value("eval_batch_size"))
        peak = step_memory(model("meta-llama/Llama-3.1-8B").architecture, layout, plan.work).moments["evaluation"]
        assert plan.usable_bytes >= peak and (layout.micro_batch > 1) == (length == 1024)
        (train,) = (file.text for file in compilation.files if file.path == "train.py")
        assert f"per_device_eval_batch_size={layout.micro_batch}," in train
