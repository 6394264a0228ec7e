"""The candidates: every way to arrange the ranks and lay a stage on them that the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import gcd
from typing import Any

from msgspec.structs import replace

from recipec.axes import STRATEGIES, Method, Strategy
from recipec.axes.strategies import ON_DEVICE
from recipec.layout import Layout, Machines, Mesh
from recipec.planner.search.bounds import NEAR
from recipec.planner.search.sequences import settled_method
from recipec.rules.core import Ledger
from recipec.rules.preference import precomputed_reference, splitting_rules

SOME_LAYERS = (1, 2, 4)  # every n-th layer is recomputed; at 4 a quarter of the recomputation is left to save
_RECOMPUTATION = ("activation_checkpointing", "recompute_every", "activation_offload")


def layouts(ledger: Ledger, on_host: bool = False, shared: bool = False) -> Iterator[Layout]:
    """The candidates with a micro batch of one; the planner solves for the micro batch.

    With `on_host` those whose activations wait in host memory, with `shared` those whose layers are spread over ranks;
    otherwise the recipe has to ask for them.
    """
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    wishes = {key: wish.value for key, wish in ledger.wishes.items()}
    method = settled_method(ledger.decisions)
    sequences = value["global_batch_size"] // wishes.get("train.micro_batch_size", method.least_micro_batch)
    most = _most_ranks(ledger, sequences)
    served_by = value.get("server_gpus", 0)
    machines = Machines(value["nodes"], value["gpus_per_node"] - served_by)
    found = dict.fromkeys(meshes(machines, sequences, wishes, even=not served_by, most=most))
    if shared:
        spread = meshes(machines, sequences, wishes, shared, dispatches="capacity_factor" in value, most=most)
        found = dict.fromkeys(place for place in spread if place not in found)
    for (strategy, mesh), offload in product(found, _offloads(wishes)):
        if offload not in (ON_DEVICE, *strategy.offloads):
            continue
        plain = Layout(
            adaptation=value["adaptation"],
            precision=value["precision"],
            strategy=strategy.name,
            mesh=mesh,
            offload=offload,
            micro_batch=1,
            accumulation=1,
            checkpointing=False,
            attention=value["attention"],
            packing=value["packing"],
            optimizer=value["optimizer"],
            served_by=served_by,
            precomputes=_precomputes(strategy, mesh, method, value, wishes),
        )
        found_here = _on_host(plain, value, wishes) if on_host else _recomputing(plain, method, value, wishes)
        splits = _splits(method, mesh, value["gpus_per_node"], wishes)
        yield from (replace(each, engine_tensor_parallel=split) for each in found_here for split in splits)


def _splits(method: Method, mesh: Mesh, gpus_per_node: int, wishes: Mapping[str, Any]) -> list[int]:
    """Over how many GPUs a copy of the weights may lie that writes answers beside the training, the fewest first."""
    known = method.written_by.splits if method.generates else (1,)
    asked = next((wishes[rule.key] for rule in splitting_rules(method) if rule.key in wishes), None)
    ranks = gcd(mesh.world_size, gpus_per_node)
    return [split for split in known if ranks % split == 0] if asked is None else [asked]


def _most_ranks(ledger: Ledger, sequences: int) -> int:
    """How many ranks may share the global batch: with a micro batch that the recipe sets, they may make nearly as many
    sequences, unless it sets the global batch too."""
    batch, micro = ledger.decisions["global_batch_size"], ledger.wishes.get("train.micro_batch_size")
    if micro is None or batch.origin == "recipe" or settled_method(ledger.decisions).generates:
        return sequences
    return int((1 + NEAR) * batch.value) // micro.value


def _precomputes(
    strategy: Strategy, mesh: Mesh, method: Method, value: Mapping[str, Any], wishes: Mapping[str, Any]
) -> bool:
    """Whether the reference scores all rows before training."""
    asked = wishes.get(precomputed_reference.key)
    if not method.precomputes or asked is not None:
        return bool(method.precomputes and asked)
    place = (strategy.name, mesh.world_size, value["gpus_per_node"])
    return precomputed_reference(value["adaptation"], *place, value["passes"]).value


def _offloads(wishes: Mapping[str, Any]) -> tuple[str, ...]:
    asked = wishes.get("train.offload")
    known = dict.fromkeys(name for row in STRATEGIES.values() for name in row.offloads)
    return (ON_DEVICE, *known) if asked is None else (asked,)


def _recomputing(
    plain: Layout, method: Method, value: Mapping[str, Any], wishes: Mapping[str, Any]
) -> Iterator[Layout]:
    """The layout with activations kept, and with layers recomputed, as far as the recipe leaves it open.

    A recipe that puts speed first, and has its states on the device, also gets layouts that recompute only some layers.
    """
    asked, every, offloads = (wishes.get(f"train.{key}") for key in _RECOMPUTATION)
    wanted = asked or every or offloads or value["priority"] == "memory"
    if asked is False or not (wanted or _short_of_memory(plain, value)):
        yield plain
    if asked is False:
        return
    keeps = method.keeps_recomputation  # page BAD-032
    partly = value["priority"] == "speed" and keeps and not plain.offloads
    for interval in (every,) if every else SOME_LAYERS if partly else (1,):
        yield replace(plain, checkpointing=True, recompute_every=interval, activation_offload=bool(offloads))


def _short_of_memory(plain: Layout, value: Mapping[str, Any]) -> bool:
    """Whether only a lack of memory makes a layout worth a look, so that a large model would not keep activations;
    experts that ranks share may leave room for them."""
    measures = plain.offloads or plain.mesh.tensor * plain.mesh.context > 1
    return bool(value["checkpointing_default"]) and measures


def _on_host(plain: Layout, value: Mapping[str, Any], wishes: Mapping[str, Any]) -> Iterator[Layout]:
    """The layout that takes least memory of the device, where the recipe does not say otherwise."""
    asked, every, offloads = (wishes.get(f"train.{key}") for key in _RECOMPUTATION)
    if asked is not False and offloads is None and not value["gpu_is_cpu"]:
        yield replace(plain, checkpointing=True, recompute_every=every or 1, activation_offload=True)


MOST_CONTEXT_RANKS = 64


def meshes(
    machines: Machines,
    sequences: int,
    wishes: Mapping[str, Any],
    shared: bool = False,
    dispatches: bool = False,
    even: bool = True,
    most: int = 0,
) -> Iterator[tuple[Strategy, Mesh]]:
    """Strategy and mesh of every arrangement in which the global batch of `sequences` has one for each copy; `most`
    copies where that is not their number.

    With `shared`, ranks may also share layers on several nodes, and the experts of layers that dispatch tokens to
    them; otherwise only as the recipe says. Without `even`, any number of the GPUs may train.
    """
    asked = wishes.get("train.strategy")
    for world_size in _sizes(machines, sequences) if even else range(machines.gpus, 0, -1):
        for strategy in STRATEGIES.values():
            fits = strategy.one_rank == (world_size == 1)
            if fits and (asked == strategy.name or (asked is None and machines.nodes >= strategy.searched_from_nodes)):
                search = shared and machines.nodes > 1 and strategy.shares_layers
                found = _of_strategy(strategy, world_size, machines, wishes, search, shared and dispatches)
                yield from ((strategy, mesh) for mesh in found if mesh.data_parallel <= max(most, sequences, 1))


def _sizes(machines: Machines, sequences: int) -> list[int]:
    """Whole nodes in equal parts of the cluster and in powers of two, then equal parts of one node; the largest first.

    Where the batch is the limit, also as many nodes as it has a sequence for each of their devices, and on one node one
    device for each sequence.
    """
    most = max(1, min(machines.nodes, sequences // machines.gpus_per_node))
    counts = {*_divisors(machines.nodes), *_powers_of_two(machines.nodes), most}
    nodes = [machines.gpus_per_node * count for count in sorted(counts, reverse=True)]
    sizes = [*nodes, *_divisors(machines.gpus_per_node)[1:]]
    if machines.nodes > 1 or sequences >= machines.gpus or sequences in sizes:
        return sizes
    return sorted([*sizes, max(sequences, 1)], reverse=True)


def _of_strategy(
    strategy: Strategy,
    world_size: int,
    machines: Machines,
    wishes: Mapping[str, Any],
    search: bool,
    dispatches: bool,
) -> Iterator[Mesh]:
    for tensor, context, expert in _inside_layers(world_size, machines, wishes, search, dispatches):
        ranks = world_size // (tensor * context)
        least = max(2, machines.gpus_per_node // tensor) if machines.nodes > 1 else 2
        for shard in _shards(strategy, ranks, least):
            if shard % expert == 0:
                yield Mesh(ranks // shard, shard, tensor, context, expert)


def _shards(strategy: Strategy, ranks: int, least: int) -> list[int]:
    """Over how many ranks it shards: none, all of them, or groups of at least a node that the others copy."""
    if strategy.replicates:
        return [1]
    return [size for size in _divisors(ranks) if least <= size < ranks] if strategy.groups else [ranks]


def _inside_layers(
    world_size: int, machines: Machines, wishes: Mapping[str, Any], search: bool, dispatches: bool
) -> Iterator[tuple[int, int, int]]:
    """(tensor, context, expert) ranks; more than one where it is asked for, or in a search.

    Tensor parallelism stays in a node, whose link its all-reduces wait for; experts are not combined with the others.
    """
    tensor = _degrees("train.tensor_parallel", machines.gpus_per_node, search, wishes)
    context = _degrees("train.context_parallel", min(world_size, MOST_CONTEXT_RANKS), search, wishes)
    expert = _degrees("train.expert_parallel", machines.gpus_per_node, search or dispatches, wishes)
    for found in product(tensor, context, expert):
        alone = found[2] == 1 or found[:2] == (1, 1) or "train.expert_parallel" in wishes
        if alone and world_size % (found[0] * found[1]) == 0:
            yield found


def _degrees(key: str, most: int, search: bool, wishes: Mapping[str, Any]) -> list[int]:
    if key in wishes:
        return [wishes[key]]
    return _powers_of_two(most) if search else [1]


def _powers_of_two(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def _divisors(number: int) -> list[int]:
    return [size for size in range(number, 0, -1) if number % size == 0]
