"""The candidates: every way to lay a stage on the given devices that the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from recipec.layout import Layout, Machines
from recipec.planner.meshes import meshes
from recipec.rules.core import Ledger

SOME_LAYERS = (1, 2, 4)  # every n-th layer is recomputed; further ones save little more time
_RECOMPUTATION = ("activation_checkpointing", "recompute_every", "activation_offload")
OFFLOADING = ("zero1", "zero2", "zero3")  # strategies that can hold optimizer states in CPU memory


def layouts(ledger: Ledger) -> Iterator[Layout]:
    """All candidates with a micro batch of one; the planner solves for the micro batch."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    wishes = {key: wish.value for key, wish in ledger.wishes.items()}
    sequences = value["global_batch_size"] // wishes.get("train.micro_batch_size", 1)
    found = meshes(Machines(value["nodes"], value["gpus_per_node"]), sequences, wishes)
    for (strategy, mesh), offload in product(found, _offloads(wishes)):
        if offload == "cpu" and strategy not in OFFLOADING:
            continue
        plain = Layout(
            adaptation=value["adaptation"],
            quantization=value["quantization"],
            precision=value["precision"],
            strategy=strategy,
            mesh=mesh,
            offload=offload,
            micro_batch=1,
            accumulation=1,
            checkpointing=False,
            attention=value["attention"],
            packing=value["packing"],
            optimizer=value["optimizer"],
        )
        yield from _recomputing(plain, value, wishes)


def _offloads(wishes: Mapping[str, Any]) -> tuple[str, ...]:
    asked = wishes.get("train.offload")
    return ("none", "cpu") if asked is None else (asked,)


def _recomputing(plain: Layout, value: Mapping[str, Any], wishes: Mapping[str, Any]) -> Iterator[Layout]:
    """The layout with activations kept, and with layers recomputed, as far as the recipe leaves it open.

    A recipe that puts speed first also gets layouts that recompute only some layers.
    """
    asked, every, offloads = (wishes.get(f"train.{key}") for key in _RECOMPUTATION)
    if asked is not True and not every and not offloads and not (value["checkpointing_required"] and asked is None):
        yield plain
    if asked is False:
        return
    by_trainer = not plain.fsdp and value["stage"] != "dpo"  # pages BAD-032 to BAD-034
    hosted = (by_trainer or (plain.fsdp and plain.adaptation == "full")) and not value["gpu_is_cpu"]
    intervals = (every,) if every else SOME_LAYERS if by_trainer and value["priority"] == "speed" else (1,)
    places = (offloads,) if offloads is not None else (False, True) if hosted else (False,)
    for interval, place in product(intervals, places):
        yield replace(plain, checkpointing=True, recompute_every=interval, activation_offload=place)
