"""What to watch fits the case: no adapter where all weights train, no dropped rows where rows are cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner import StagePlan
from recipec.rules.metrics import METRICS, watched


def planned(folder: Path, base: str, keys: dict[str, object]) -> StagePlan:
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan
    return plan.stages[0]


@pytest.mark.parametrize(
    ("base", "keys", "id", "has", "lacks"),
    [
        ("pretrain", {}, "adaptation", "loss", "lora"),
        ("dpo-full", {}, "adaptation", "loss", "lora"),
        ("lora-single", {}, "adaptation", 'set `train.adaptation = "full"`', "quantization"),
        ("qlora", {}, "adaptation", '`train.adaptation = "lora"` and `train.quantization = "none"`', '"full"'),
        ("lora-single", {}, "precision", "finite", "fp16"),
        ("lora-single", {"train.precision": "fp16"}, "precision", "fp16", "a NaN comes"),
        ("lora-single", {}, "strategy", "near the plan", "communication"),
        ("lora-ddp", {}, "strategy", "communication", "alone"),
        ("lora-single", {}, "adam_beta2", "no spikes", "pretraining"),
        ("lora-single", {}, "max_length", "dropped_rows", "cut"),
        ("text", {}, "max_length", "cut", "dropped_rows"),
        ("text", {"data.overflow": "drop"}, "max_length", "dropped_rows", "cut"),
        ("text", {}, "overflow", "nothing is dropped", "dropped_rows"),
        ("text", {}, "template", "no template", "chat"),
        ("cpu", {}, "template", "has not seen", "starts low"),
        ("small-card", {}, "template", "documentation", "has not seen"),
        ("text", {}, "loss_on", "every token", "data.template"),
        ("text", {"train.schedule": "constant"}, "schedule", "then stays", "down to 0"),
        ("dpo-full", {}, "sampling", "by chance", "length of its batch"),
        ("dpo-full", {}, "packing", "padding", "with packing"),
        ("dpo-full", {}, "double_quantization", "near the plan", "unquantized"),
    ],
)
def test_what_to_watch_fits_the_case(
    tmp_path: Path, base: str, keys: dict[str, object], id: str, has: str, lacks: str
) -> None:
    watch = planned(tmp_path, base, keys).decisions[id].watch
    assert has in watch
    assert lacks not in watch


@pytest.mark.parametrize("base", BASES)
def test_what_is_watched_is_logged(tmp_path: Path, base: str) -> None:
    decisions = planned(tmp_path, base, {}).decisions.values()
    assert {name for decision in decisions for name in watched(decision.watch)} <= METRICS
