"""The candidates: every way to lay a stage on the given devices that the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from recipec.axes import adaptation_of
from recipec.layout import Layout, Machines
from recipec.planner.meshes import meshes
from recipec.rules.core import Ledger

SOME_LAYERS = (1, 2, 4)  # every n-th layer is recomputed; at 4 a quarter of the recomputation is left to save
_RECOMPUTATION = ("activation_checkpointing", "recompute_every", "activation_offload")
OFFLOADING = ("zero1", "zero2", "zero3")  # strategies that can hold optimizer states in CPU memory


def layouts(ledger: Ledger, on_host: bool = False) -> Iterator[Layout]:
    """All candidates with a micro batch of one; the planner solves for the micro batch.

    With `on_host` those whose activations wait in host memory; otherwise the recipe has to ask for them.
    """
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    wishes = {key: wish.value for key, wish in ledger.wishes.items()}
    sequences = value["global_batch_size"] // wishes.get("train.micro_batch_size", 1)
    found = meshes(Machines(value["nodes"], value["gpus_per_node"]), sequences, wishes)
    for (strategy, mesh), offload in product(found, _offloads(wishes)):
        if offload == "cpu" and strategy not in OFFLOADING:
            continue
        plain = Layout(
            adaptation=adaptation_of(value["adaptation"], value["quantization"]).name,
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
        yield from _on_host(plain, value, wishes) if on_host else _recomputing(plain, value, wishes)


def _offloads(wishes: Mapping[str, Any]) -> tuple[str, ...]:
    asked = wishes.get("train.offload")
    return ("none", "cpu") if asked is None else (asked,)


def _recomputing(plain: Layout, value: Mapping[str, Any], wishes: Mapping[str, Any]) -> Iterator[Layout]:
    """The layout with activations kept, and with layers recomputed, as far as the recipe leaves it open.

    A recipe that puts speed first, and has its states on the device, also gets layouts that recompute only some layers.
    """
    asked, every, offloads = (wishes.get(f"train.{key}") for key in _RECOMPUTATION)
    if asked is False or not (asked or every or offloads or value["checkpointing_required"]):
        yield plain
    if asked is False:
        return
    partly = value["priority"] == "speed" and value["stage"] != "dpo" and plain.offload == "none"  # page BAD-032
    for interval in (every,) if every else SOME_LAYERS if partly else (1,):
        yield replace(plain, checkpointing=True, recompute_every=interval, activation_offload=bool(offloads))


def _on_host(plain: Layout, value: Mapping[str, Any], wishes: Mapping[str, Any]) -> Iterator[Layout]:
    """The layout that takes least memory of the device, where the recipe does not say otherwise."""
    asked, every, offloads = (wishes.get(f"train.{key}") for key in _RECOMPUTATION)
    if asked is not False and offloads is None and not value["gpu_is_cpu"]:
        yield replace(plain, checkpointing=True, recompute_every=every or 1, activation_offload=True)
