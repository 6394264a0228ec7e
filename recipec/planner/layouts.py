"""The candidates: every way to lay a stage on the given devices that the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from recipec.layout import Layout, Mesh
from recipec.rules.core import Ledger

STRATEGIES = ("single", "ddp", "fsdp", "zero2", "zero3")  # simplest first
OFFLOADING = ("zero2", "zero3")  # strategies that can hold optimizer states in CPU memory


def layouts(ledger: Ledger) -> Iterator[Layout]:
    """All candidates with a micro batch of one; the planner solves for the micro batch."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    wishes = {key: wish.value for key, wish in ledger.wishes.items()}
    for world_size in _world_sizes(value, wishes):
        for strategy, offload, checkpointing in product(
            _strategies(world_size, wishes), _offloads(wishes), _checkpointing(value, wishes)
        ):
            if offload == "cpu" and strategy not in OFFLOADING:
                continue
            yield Layout(
                adaptation=value["adaptation"],
                quantization=value["quantization"],
                precision=value["precision"],
                strategy=strategy,
                mesh=_mesh(strategy, world_size),
                offload=offload,
                micro_batch=1,
                accumulation=1,
                checkpointing=checkpointing,
                attention=value["attention"],
                packing=value["packing"],
                optimizer=value["optimizer"],
            )


def _world_sizes(value: Mapping[str, Any], wishes: Mapping[str, Any]) -> list[int]:
    """The numbers of devices that divide the node and that the global batch can feed, the whole node first."""
    gpus, sequences = value["gpus"], value["global_batch_size"] // wishes.get("train.micro_batch_size", 1)
    sizes = [size for size in range(gpus, 0, -1) if gpus % size == 0 and size <= max(sequences, 1)]
    return [min(gpus, max(sequences, 1)), *sizes] if sizes[0] < min(gpus, sequences) else sizes


def _strategies(world_size: int, wishes: Mapping[str, Any]) -> tuple[str, ...]:
    possible = STRATEGIES[:1] if world_size == 1 else STRATEGIES[1:]
    asked = wishes.get("train.strategy")
    return tuple(strategy for strategy in possible if asked in (None, strategy))


def _offloads(wishes: Mapping[str, Any]) -> tuple[str, ...]:
    asked = wishes.get("train.offload")
    return ("none", "cpu") if asked is None else (asked,)


def _checkpointing(value: Mapping[str, Any], wishes: Mapping[str, Any]) -> tuple[bool, ...]:
    if "train.activation_checkpointing" in wishes:
        return (wishes["train.activation_checkpointing"],)
    return (True,) if value["checkpointing_required"] else (False, True)


def _mesh(strategy: str, world_size: int) -> Mesh:
    """ZeRO and FSDP shard over all ranks; DDP replicates."""
    return Mesh(replicate=world_size) if strategy in ("single", "ddp") else Mesh(shard=world_size)
