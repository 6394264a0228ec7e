"""Parts of the bill that are made of a step, and have no share of what only the step does."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, good, with_key

from recipec.planner.plan import StagePlan

CHAT_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def stage(folder: Path, recipe: Tables) -> StagePlan:
    return good(folder, recipe).plan.stages[0]


def seconds(plan: StagePlan, name: str) -> float:
    return next(part.seconds for part in plan.parts if part.name == name)


def test_evaluations_have_no_share_of_an_optimizer(tmp_path: Path) -> None:
    """Adafactor moves more bytes than AdamW in a step; forward passes are the same."""
    recipe = with_key(with_key(BASES["lora-single"], "model.name", CHAT_MODEL), "train.adaptation", "full")
    recipe = with_key(with_key(recipe, "hardware.gpu", "h200"), "train.global_batch_size", 8)
    slow, fast = (stage(tmp_path, with_key(recipe, "train.optimizer", name)) for name in ("adafactor", "adamw"))
    assert slow.layout.micro_batch == fast.layout.micro_batch
    assert slow.time.seconds_per_step > 1.02 * fast.time.seconds_per_step
    for part in ("evaluations", "scoring"):
        assert seconds(slow, part) == pytest.approx(seconds(fast, part))


def test_evaluate_py_has_no_share_of_what_the_host_does(tmp_path: Path) -> None:
    """Few cores step offloaded states slowly."""
    slow, fast = (stage(tmp_path, with_key(BASES["zero3-offload"], "hardware.cpu_cores", cores)) for cores in (1, 64))
    assert slow.layout.offloads and slow.layout == fast.layout
    assert slow.time.seconds_per_step > 1.2 * fast.time.seconds_per_step
    assert seconds(slow, "scoring") == pytest.approx(seconds(fast, "scoring"))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_loading_reads_the_teacher_beside_a_4_bit_base(tmp_path: Path, strategy: str) -> None:
    """Ranks that share a packed base read its files, and others the weights as they are published."""
    recipe = with_key(
        with_key(BASES["distill"], "alignment.teacher", "Qwen/Qwen2.5-14B-Instruct"), "train.strategy", strategy
    )
    recipe = with_key(with_key(recipe, "model.name", "Qwen/Qwen2.5-7B-Instruct"), "train.adaptation", "qlora")
    plan = stage(tmp_path, with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 2}))
    packed = plan.needs.storage.packed_bytes
    assert (packed > 0) == (strategy == "fsdp")
    teacher, base = 2 * 14_770_033_664, packed or 2 * 7_615_616_512
    told = next(part.because for part in plan.parts if part.name == "loading")
    assert f"reads {(teacher + base) / 2**30:.1f} GiB of weights" in told
