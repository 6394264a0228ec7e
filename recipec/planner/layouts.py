"""The candidates: every way to lay a stage on the given devices that the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from recipec.layout import Layout, Machines
from recipec.planner.meshes import meshes
from recipec.rules.core import Ledger

OFFLOADING = ("zero1", "zero2", "zero3")  # strategies that can hold optimizer states in CPU memory


def layouts(ledger: Ledger) -> Iterator[Layout]:
    """All candidates with a micro batch of one; the planner solves for the micro batch."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    wishes = {key: wish.value for key, wish in ledger.wishes.items()}
    sequences = value["global_batch_size"] // wishes.get("train.micro_batch_size", 1)
    found = meshes(Machines(value["nodes"], value["gpus_per_node"]), sequences, wishes)
    for (strategy, mesh), offload, checkpointing in product(found, _offloads(wishes), _checkpointing(value, wishes)):
        if offload == "cpu" and strategy not in OFFLOADING:
            continue
        yield Layout(
            adaptation=value["adaptation"],
            quantization=value["quantization"],
            precision=value["precision"],
            strategy=strategy,
            mesh=mesh,
            offload=offload,
            micro_batch=1,
            accumulation=1,
            checkpointing=checkpointing,
            attention=value["attention"],
            packing=value["packing"],
            optimizer=value["optimizer"],
        )


def _offloads(wishes: Mapping[str, Any]) -> tuple[str, ...]:
    asked = wishes.get("train.offload")
    return ("none", "cpu") if asked is None else (asked,)


def _checkpointing(value: Mapping[str, Any], wishes: Mapping[str, Any]) -> tuple[bool, ...]:
    if "train.activation_checkpointing" in wishes:
        return (wishes["train.activation_checkpointing"],)
    return (True,) if value["checkpointing_required"] else (False, True)
