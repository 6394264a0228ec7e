"""Every way to arrange devices for a strategy: copies, shards, and ranks that share a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from recipec.layout import Machines, Mesh

STRATEGIES = ("single", "ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")  # simplest first
MOST_CONTEXT_RANKS = 64


def meshes(machines: Machines, sequences: int, wishes: Mapping[str, Any]) -> Iterator[tuple[str, Mesh]]:
    """Strategy and mesh of every arrangement in which the global batch of `sequences` has one for each copy."""
    asked = wishes.get("train.strategy")
    for world_size in _sizes(machines, sequences):
        for strategy in STRATEGIES[:1] if world_size == 1 else STRATEGIES[1:]:
            if asked == strategy or (asked is None and (strategy != "hsdp" or machines.nodes > 1)):
                found = _of_strategy(strategy, world_size, machines, wishes)
                yield from ((strategy, mesh) for mesh in found if mesh.data_parallel <= max(sequences, 1))


def _sizes(machines: Machines, sequences: int) -> list[int]:
    """Whole nodes in equal parts of the cluster, then equal parts of one node; the largest first.

    Where the batch is the limit on one node, also one device for each sequence.
    """
    nodes = [machines.gpus_per_node * count for count in _divisors(machines.nodes)]
    sizes = [*nodes, *_divisors(machines.gpus_per_node)[1:]]
    if machines.nodes > 1 or sequences >= machines.gpus or sequences in sizes:
        return sizes
    return sorted([*sizes, max(sequences, 1)], reverse=True)


def _of_strategy(strategy: str, world_size: int, machines: Machines, wishes: Mapping[str, Any]) -> Iterator[Mesh]:
    search = machines.nodes > 1 and strategy in ("fsdp", "hsdp")
    for tensor, context, expert in _inside_layers(world_size, machines, wishes, search):
        ranks = world_size // (tensor * context)
        least = max(2, machines.gpus_per_node // tensor) if machines.nodes > 1 else 2
        for shard in _shards(strategy, ranks, least):
            if shard % expert == 0:
                yield Mesh(ranks // shard, shard, tensor, context, expert)


def _shards(strategy: str, ranks: int, least: int) -> list[int]:
    """DDP copies, FSDP and ZeRO shard over all ranks; HSDP over at least a node, and copies that to the others."""
    if strategy in ("single", "ddp"):
        return [1]
    return [size for size in _divisors(ranks) if least <= size < ranks] if strategy == "hsdp" else [ranks]


def _inside_layers(
    world_size: int, machines: Machines, wishes: Mapping[str, Any], search: bool
) -> Iterator[tuple[int, int, int]]:
    """(tensor, context, expert) ranks; more than one where it is asked for, or in a search over several nodes.

    Tensor parallelism stays in a node, whose link its all-reduces wait for; experts are not combined with the others.
    """
    tensor = _degrees("train.tensor_parallel", machines.gpus_per_node, search, wishes)
    context = _degrees("train.context_parallel", min(world_size, MOST_CONTEXT_RANKS), search, wishes)
    expert = _degrees("train.expert_parallel", machines.gpus_per_node, search, wishes)
    for found in product(tensor, context, expert):
        alone = found[2] == 1 or found[:2] == (1, 1) or "train.expert_parallel" in wishes
        if alone and world_size % (found[0] * found[1]) == 0:
            yield found


def _degrees(key: str, most: int, search: bool, wishes: Mapping[str, Any]) -> list[int]:
    if key in wishes:
        return [wishes[key]]
    return [2**power for power in range(most.bit_length()) if 2**power <= most] if search else [1]


def _divisors(number: int) -> list[int]:
    return [size for size in range(number, 0, -1) if number % size == 0]
