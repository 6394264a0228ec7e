"""Write the chosen layout into the ledger: each of its parts is a decision with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recipec.facts import Facts
from recipec.layout import Layout, Mesh
from recipec.planner.choose import GIB, Candidate
from recipec.planner.plan import Needs, Rejected
from recipec.rules.core import Decision, Ledger

WATCH = {
    "micro_batch_size": "peak_memory_gib: near the prediction; on out-of-memory halve this and double the accumulation",
    "gradient_accumulation": "samples_per_second: constant; it only splits the global batch",
    "checkpointing": "tokens_per_second, peak_memory_gib: off costs memory, on about a third more compute",
    "recompute_every": "tokens_per_second, peak_memory_gib: fewer recomputed layers are faster and need more memory",
    "activation_offload": "tokens_per_second: every copy to and from the host lengthens the step",
    "strategy": "tokens_per_second: near the prediction; far below, communication is the bottleneck",
    "offload": "tokens_per_second: offloading trades speed for memory",
    "world_size": "samples_per_second: grows with the ranks",
    "shards": "tokens_per_second: near the prediction; larger groups of shards save memory and cost network",
    "tensor_parallel": "tokens_per_second: with more than one, every layer waits for its all-reduces",
    "context_parallel": "tokens_per_second: with more than one, every attention waits for the other keys and values",
    "expert_parallel": "tokens_per_second: with more than one, every token waits for its way to its experts and back",
}

MEMORY_INPUTS = (
    *("params", "adaptation", "quantization", "precision", "optimizer", "attention", "packing"),
    *("checkpointing", "recompute_every", "activation_offload", "offload", "world_size"),
    *("compile", "lora_rank", "lora_targets", "lora_dropout"),
)
STRATEGY_INPUTS = ("gpus", "gpu", "params", "adaptation", "tokens_per_example", "network_gbps")
KEYS = {  # recipe keys that fix a part of the layout
    "strategy": "train.strategy",
    "offload": "train.offload",
    "checkpointing": "train.activation_checkpointing",
    "recompute_every": "train.recompute_every",
    "activation_offload": "train.activation_offload",
    "micro_batch_size": "train.micro_batch_size",
    "tensor_parallel": "train.tensor_parallel",
    "context_parallel": "train.context_parallel",
    "expert_parallel": "train.expert_parallel",
}

_RECOMPUTING = (KEYS["recompute_every"], KEYS["activation_offload"])

Row = tuple[str, Any, str, tuple[str, ...]]  # decision, value, reason, inputs


def record_layout(ledger: Ledger, chosen: Candidate, facts: Facts) -> None:
    """Record strategy, offload, world size, recomputation, batch split and shared layers, in that order."""
    peak = f"{chosen.memory.peak_device_bytes / GIB:.1f} GiB of the device's {facts.gpu.memory_gib:g}"
    target = ledger.decisions["global_batch_size"].value
    _run_batch(ledger, chosen.layout)
    rows = [*_placement(ledger, chosen, facts, peak, target), *_recomputation(chosen.layout, peak)]
    for id, value, because, inputs in [*rows, *_batch(chosen.layout, peak, target), *_mesh(chosen.layout.mesh)]:
        ledger.record(_decision(ledger, id, value, because, inputs))


def _run_batch(ledger: Ledger, layout: Layout) -> None:
    """The global batch that the layout makes, where that is not the one that was decided."""
    decided, made = ledger.decisions["global_batch_size"], layout.global_batch
    if made != decided.value:
        nearest = f"{made}, the nearest to {decided.value} that {layout.mesh.data_parallel} ranks make"
        ledger.decisions[decided.id] = replace(decided, value=made, because=f"{nearest}; {decided.because}")


def _placement(ledger: Ledger, chosen: Candidate, facts: Facts, peak: str, target: int) -> list[Row]:
    layout, world = chosen.layout, chosen.layout.mesh.world_size
    fixed = layout.micro_batch if KEYS["micro_batch_size"] in ledger.wishes else 1
    hosted = chosen.memory.host_bytes * min(world, facts.machines.gpus_per_node)
    return [
        ("strategy", layout.strategy, _strategy(layout.strategy, peak), STRATEGY_INPUTS),
        ("offload", layout.offload, _offload(layout.offload, peak, hosted), ("strategy", "gpu", "params")),
        ("world_size", world, _world(world, facts.machines.gpus, target // fixed), ("gpus", "global_batch_size")),
    ]


def _recomputation(layout: Layout, peak: str) -> list[Row]:
    """Whether, in which layers, and where their inputs wait."""
    every, hosted = layout.recompute_interval, layout.activation_offload
    some = f"one of {every} layers" if every > 1 else "every layer" if every else "no layer"
    because = f"activations of {some} are recomputed in the backward pass"
    because += ", from inputs that wait in CPU memory" if hosted else ""
    because = because if every else "activations fit, recomputing would cost time"
    place = "inputs of recomputed layers wait in CPU memory" if hosted else "no activation leaves the device"
    return [
        ("checkpointing", layout.checkpointing, because, ("checkpointing_required", "gpu")),
        ("recompute_every", every, f"{some} is recomputed", ("checkpointing", "priority", "strategy")),
        ("activation_offload", hosted, f"{place}: {peak}", ("checkpointing", "strategy", "gpu")),
    ]


def _batch(layout: Layout, peak: str, target: int) -> list[Row]:
    ranks = layout.mesh.data_parallel
    share = f"{layout.global_batch} sequences = {layout.micro_batch} x {layout.accumulation} x {ranks}"
    share += "" if layout.global_batch == target else f", the nearest to the target of {target}"
    needs = ("gpu", "max_length", "strategy", "global_batch_size", *MEMORY_INPUTS)
    split = ("global_batch_size", "micro_batch_size", "world_size")
    return [
        ("micro_batch_size", layout.micro_batch, f"{layout.micro_batch} needs {peak}", needs),
        ("gradient_accumulation", layout.accumulation, share, split),
    ]


def _mesh(mesh: Mesh) -> list[Row]:
    """Groups of shards where there are several, and how many ranks share a layer: one where none do."""
    inputs = ("world_size", "strategy", "params", "max_length", "global_batch_size")
    rows: list[Row] = []
    if mesh.replicate > 1 and mesh.shard > 1:
        rows.append(("shards", mesh.shard, f"{mesh.replicate} copies of {mesh.shard} shards each", inputs))
    for name, ranks in (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert)):
        whole, shared = _SHARED[name]
        because = f"{ranks} ranks share {shared}" if ranks > 1 else f"no rank shares {whole} with another"
        rows.append((f"{name}_parallel", ranks, because, inputs))
    return rows


_SHARED = {  # what each rank has whole, and what it means to share it
    "tensor": ("a matrix product", "each matrix product, so each gathers and recomputes a part of a layer"),
    "context": ("a sequence", "each sequence, so each keeps a part of its activations"),
    "expert": ("the experts of a layer", "the experts, so each gathers a part of them"),
}


def record_prediction(
    ledger: Ledger,
    chosen: Candidate,
    seconds: float,
    cost_usd: float | None,
    needs: Needs,
    rejected: Sequence[Rejected],
) -> None:
    """Record what the estimates say of the plan and of its alternatives; everything that they depend on is an input."""
    memory = chosen.memory
    predicted = {
        "seconds": round(seconds),
        "usd": cost_usd,
        "host_memory_bytes": needs.host.needed_bytes,
        "disk_bytes": needs.storage.total_bytes,
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        **memory.terms,
    }
    others = [f"{other.family}: {other.reason}" for other in rejected]
    inputs = tuple(ledger.decisions)
    rows: list[tuple[str, Any, str]] = [
        ("prediction", predicted, f"estimated for a {ledger.decisions['gpu'].value}"),
        ("alternatives", others, f"the best of {len(others)} other kinds, each with why it lost"),
    ]
    for id, value, because in rows:
        watch = "peak_memory_gib, tokens_per_second: near what was predicted"
        source = "memory and time estimates of the planner; their accuracy: benchmarks/results"
        ledger.record(Decision(id, value, because, inputs=inputs, origin="planner", watch=watch, source=source))


def _decision(ledger: Ledger, id: str, value: Any, because: str, inputs: tuple[str, ...]) -> Decision:
    key = KEYS.get(id, "")
    if id == "checkpointing" and key not in ledger.wishes:  # to say how layers are recomputed is to want it
        key = next((other for other in _RECOMPUTING if _wants(ledger, other)), key)
    wish = ledger.wishes.get(key)
    return Decision(
        id,
        value,
        f"set in {wish.where}; {because}" if wish else because,
        inputs=tuple(name for name in inputs if name in ledger.decisions),
        origin="recipe" if wish else "planner",
        watch=WATCH[id],
        source="memory and time estimates of the planner",
        key=key,
        where=wish.where if wish else "",
    )


def _wants(ledger: Ledger, key: str) -> bool:
    return key in ledger.wishes and bool(ledger.wishes[key].value)


def _strategy(strategy: str, peak: str) -> str:
    reasons = {
        "single": "one device: nothing to distribute",
        "ddp": "the model fits on every device, so only gradients are exchanged",
        "fsdp": "parameters, gradients and optimizer states are sharded over all ranks",
        "hsdp": "parameters, gradients and optimizer states are sharded within groups, which copy each other",
        "zero1": "optimizer states are sharded over all ranks",
        "zero2": "gradients and optimizer states are sharded over all ranks",
        "zero3": "parameters, gradients and optimizer states are sharded over all ranks",
    }
    return f"{reasons[strategy]}; {peak}"


def _offload(offload: str, peak: str, host_bytes: int) -> str:
    if offload == "none":
        return f"fits without: {peak}"
    return f"states in CPU memory, {host_bytes / GIB:.0f} GiB of the node's: {peak}"


def _world(world_size: int, gpus: int, micro_batches: int) -> str:
    if world_size == gpus:
        return f"all {gpus} device{'s' * (gpus > 1)}"
    if micro_batches < gpus:
        return f"{world_size} of {gpus} devices: the global batch has none for the others"
    return f"{world_size} of {gpus} devices: no layout that fits on more of them is clearly faster"
