"""Linear modules that take no adapter have none, whatever the recipe names: kernels take the weight past one, or they
are part of no block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key

HYBRID, MIXTURE = "ibm-granite/granite-4.0-h-1b", "ibm-granite/granite-4.0-h-tiny"
ALONE, BESIDE = "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", "tiiuae/Falcon-H1-0.5B-Base"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def recipe(model: str, **lora: Any) -> dict[str, Any]:
    found = with_key(with_key(BASES["lora-single"], "model.name", model), "train.adaptation", "lora")
    found = with_key(found, "hardware.gpu", "h100")
    return with_key(found, "train.lora", lora) if lora else found


@pytest.mark.parametrize(
    ("model", "lora", "named"),
    [
        (HYBRID, {}, ["q_proj", "k_proj", "v_proj", "o_proj", "input_linear", "output_linear", "in_proj"]),
        (HYBRID, {"targets": "attention"}, ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj"]),
        (MIXTURE, {}, ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj"]),
        (HYBRID, {"targets": ["in_proj"]}, ["in_proj"]),
        (ALONE, {}, [*ATTENTION, "in_proj", "up_proj", "down_proj"]),
        (BESIDE, {}, [*ATTENTION, "in_proj", "gate_proj", "up_proj", "down_proj"]),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16", {}, [*ATTENTION, "in_proj"]),
    ],
)
def test_the_output_of_a_state_space_has_no_adapter(
    tmp_path: Path, model: str, lora: dict[str, Any], named: list[str]
) -> None:
    listed = ", ".join(f'"{name}"' for name in named)
    assert f"target_modules=[{listed}]" in texts(good(tmp_path, recipe(model, **lora)))["train.py"]


def test_a_recipe_that_names_it_is_refused(tmp_path: Path) -> None:
    done = compiled(tmp_path, recipe(HYBRID, targets=["in_proj", "out_proj"]))
    assert codes(done) == ["E0401"]
    assert "past an adapter" in done.diagnostics[0].labels[0].message


def test_what_takes_the_second_embedding_has_no_adapter(tmp_path: Path) -> None:
    listed = ", ".join(f'"{name}"' for name in (*ATTENTION, "gate_proj", "up_proj", "down_proj"))
    train = texts(good(tmp_path, recipe("google/gemma-4-E2B-it")))["train.py"]
    assert f"target_modules=[{listed}]" in train
    assert "Mamba" not in train
    done = compiled(tmp_path, recipe("google/gemma-4-E2B-it", targets=["q_proj", "per_layer_input_gate"]))
    assert codes(done) == ["E0401"]
    assert "neither attention nor the feed-forward block" in done.diagnostics[0].labels[0].message


@pytest.mark.parametrize("model", [HYBRID, MIXTURE])
def test_the_trainer_asks_for_no_loss_that_it_cannot_compute(tmp_path: Path, model: str) -> None:
    assert "router_aux_loss_coef=0.0," in texts(good(tmp_path, recipe(model)))["train.py"]
