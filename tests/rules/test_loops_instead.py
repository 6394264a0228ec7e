"""What is to be done instead of a loop of its own, in the combination at hand: no advice leads to the next refusal."""

from __future__ import annotations

from typing import Any

import pytest
from compiling import BASES, compiled, with_key
from test_combinations import DISPATCHED, combination

from recipec.rules.combinations import COMBINATIONS

ROWS = {row.id: row for row in COMBINATIONS}
LOOP, EXPERTS, GPUS = "leave `train.loop`", "`train.experts`", "`hardware.gpus_per_node = 2`"
ENGINE, TASK = '`train.loop = "deepspeed"`', "pretrain"
ALONE = {**DISPATCHED, "strategy": "single", "has_capacity": True}
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "an engine on one GPU": ("BAD-091", ALONE, (GPUS, LOOP, EXPERTS), (ENGINE, "accelerate")),
    "an engine under DDP": ("BAD-091", {**DISPATCHED, "strategy": "ddp"}, ('"zero2"', EXPERTS), (GPUS, ENGINE)),
    "a dense model": ("BAD-091", {**ALONE, "moe": False, "has_capacity": False}, (GPUS, LOOP), (EXPERTS,)),
    "PyTorch on several": ("BAD-091", {"loop": "torch", "strategy": "ddp"}, ("_node = 1`", ENGINE, LOOP), (EXPERTS,)),
    "Accelerate under FSDP": ("BAD-091", {"loop": "accelerate", "strategy": "fsdp"}, ('"ddp"', LOOP), (GPUS,)),
    "a mixture of instructions": ("BAD-095", {"loop": "torch", "moe": True}, (LOOP, EXPERTS), (ENGINE, TASK)),
    "a mixture of texts": ("BAD-095", {**ALONE, "loop": "torch"}, (LOOP, ENGINE, GPUS), (TASK,)),
    "room in instructions": ("BAD-210", {"moe": True, "has_capacity": True}, (EXPERTS,), (ENGINE, TASK)),
    "room in a dense model": ("BAD-210", {"method": "pretrain", "has_capacity": True}, (EXPERTS,), (ENGINE,)),
    "room on one GPU": ("BAD-210", {**ALONE, "loop": "trainer"}, (EXPERTS, ENGINE, GPUS), (TASK,)),
    "room on several": ("BAD-210", {**ALONE, "loop": "trainer", "strategy": "zero2"}, (EXPERTS, ENGINE), (GPUS,)),
}


@pytest.mark.parametrize(("id", "fields", "told", "not_told"), CASES.values(), ids=CASES)
def test_what_is_advised_helps_this_combination(
    id: str, fields: dict[str, Any], told: tuple[str, ...], not_told: tuple[str, ...]
) -> None:
    found = combination(**fields)
    assert ROWS[id].applies(found)
    text = ROWS[id].instead_of(found)
    assert [part for part in told if part not in text] == []
    assert [part for part in not_told if part in text] == []


def test_no_change_removes_the_model(tmp_path) -> None:
    """A recipe has to name one: what mends a loop that its experts cannot have is the loop alone."""
    made = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B")
    for key, value in {"train.loop": "torch", "train.experts": {"capacity_factor": 1.25}}.items():
        made = with_key(made, key, value)
    made = with_key(with_key(made, "hardware.gpu", "h200"), "hardware.host_memory_gib", 2000)
    (found,) = (one for one in compiled(tmp_path, made).diagnostics if one.code == "E0405")
    assert found.help and all(help.startswith("remove `train.loop` and `train.experts") for help in found.help)
    assert not any("model.name" in help for help in found.help)
