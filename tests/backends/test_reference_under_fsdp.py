"""The reference of a full fine-tuning under FSDP: every rank reads it into host memory, and FSDP shards it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import trl.trainer.utils as trl_utils
from compiling import BASES, Tables, good, texts, with_key

ON_FOUR = {"gpu": "h100", "gpus_per_node": 4, "host_memory_gib": 2000}
GPU = SimpleNamespace(device=torch.device("cuda:0"))


def bundle(folder: Path, method: str, strategy: str, adaptation: str = "full") -> str:
    """train.py of a small model."""
    recipe: Tables = with_key(BASES[method], "hardware", ON_FOUR)
    recipe = with_key(with_key(recipe, "train.adaptation", adaptation), "train.strategy", strategy)
    recipe = with_key(recipe, "alignment.beta", 0.04)
    return texts(good(folder, recipe))["train.py"]


@pytest.mark.parametrize("method", ["dpo-full", "kto", "grpo", "rloo"])
def test_trl_is_told_to_spread_no_reference_over_the_gpus(tmp_path: Path, method: str) -> None:
    assert '"device_map": None' in bundle(tmp_path, method, "fsdp")
    assert "device_map" not in bundle(tmp_path, method, "zero3")  # TRL clears it there
    assert "device_map" not in bundle(tmp_path, method, "fsdp", "lora")  # the model without its adapter


@pytest.mark.parametrize(("options", "given"), [({}, "auto"), ({"device_map": None}, None)])
def test_trl_spreads_what_it_reads_unless_told_otherwise(options: dict[str, Any], given: str | None) -> None:
    """As on a GPU: on a CPU it would not, so that no run here sees it."""
    read = mock.Mock(__name__="Model")
    with mock.patch.object(trl_utils, "PartialState", lambda: GPU):
        trl_utils.create_model_from_path("model", architecture=read, dtype="float32", **options)
    assert read.from_pretrained.call_args.kwargs["device_map"] == given
