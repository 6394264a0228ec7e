"""The saved result is held to the best checkpoint, whose weights may be rounded to 16 bits in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from emitted import built
from msgspec.structs import replace
from safetensors.torch import save_file

from recipec.verify.best import check_best, different
from recipec.verify.bundle import BundleStage, read_bundle
from recipec.verify.report import VerifyReport

ADAPTER = read_bundle(built("dpo")).last
WHOLE = read_bundle(built("simpo")).last
JUDGED = {"3": 0.5, "6": 1.5}


def problems(stage: BundleStage, folder: Path, seen: dict[str, Any]) -> str:
    report = VerifyReport("run")
    check_best(stage, folder, seen, report)
    (check,) = report.checks
    return "" if check.ok else check.detail


def saved(folder: Path, name: str, result: int, dtype: torch.dtype) -> Path:
    """Two checkpoints of fp32, and the one of the step `result` as what was saved."""
    for step in (3, 6):
        weights = {"a.weight": torch.linspace(-1, step, 65), "b.weight": torch.full((3,), 1 / 3)}
        (folder / f"checkpoint-{step}").mkdir()
        save_file(weights, folder / f"checkpoint-{step}" / name)
        if step == result:
            save_file({key: value.to(dtype) for key, value in weights.items()}, folder / name)
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("result", [3, 6])
def test_the_weights_of_the_best_checkpoint_must_be_saved(tmp_path: Path, dtype: torch.dtype, result: int) -> None:
    found = problems(WHOLE, saved(tmp_path, "model.safetensors", result, dtype), {"judged": JUDGED})
    assert bool(found) is (result == 6)
    assert not found or found.startswith("1 of 2 saved tensors are not those of checkpoint-3, the best by eval_loss")


def test_tied_weights_may_be_saved_once_and_names_differ() -> None:
    ones, twos = (("F32", numpy.full(3, bits, "<u4")) for bits in (1, 2))
    assert different({"embed": ones}, {"embed": ones, "head": ones}) == []
    assert different({"embed": ones}, {"embed": ones, "head": twos}) == ["head"]
    assert different({"embed": ones, "embed_out": twos}, {"embed": ones, "lm_head": twos}) == [], "under another name"


def test_an_adapter_that_is_converted_begins_with_the_best_one() -> None:
    down, start = (("F32", numpy.full((2, 5), bits, "<u4")) for bits in (1, 2))
    converted = {"lora_A": ("F32", numpy.concatenate([down[1], start[1]]))}
    assert different(converted, {"lora_A": down}, converted=True) == []
    assert different(converted, {"lora_A": start}, converted=True) == ["lora_A"]
    assert different(converted, {"lora_A": down}) == ["lora_A"]


def test_a_metric_that_rises_is_best_at_its_highest(tmp_path: Path) -> None:
    folder = saved(tmp_path, "adapter_model.safetensors", 6, torch.float32)
    rising = replace(ADAPTER, decisions={**ADAPTER.decisions, "best_metric": "eval_reward"})
    assert not problems(rising, folder, {"judged": JUDGED})
    assert "not those of checkpoint-3" in problems(ADAPTER, folder, {"judged": JUDGED})


def test_a_checkpoint_in_shards_is_known_by_what_is_loaded(tmp_path: Path) -> None:
    for step in (3, 6):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert not problems(WHOLE, tmp_path, {"judged": JUDGED, "loaded": ["checkpoint-3"]})
    found = problems(WHOLE, tmp_path, {"judged": JUDGED, "loaded": []})
    assert found.startswith("train() ends with the last weights, and the best is checkpoint-3")


def test_a_run_without_evaluated_checkpoints_is_found(tmp_path: Path) -> None:
    assert problems(WHOLE, tmp_path, {}).startswith("no checkpoint has an evaluation")
