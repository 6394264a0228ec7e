"""From allocated bytes to what a card must have: the caching allocator, the CUDA context, NCCL."""

from __future__ import annotations

from typing import Protocol

from recipec.catalog.measured import Measured

GIB = 1 << 30

# Caching allocator, reserved / allocated. Single GPU: median 1.08 of 11 RTX 4080 runs (canifinetune 0.4.1) and
# 1.12 of 71 T4 runs (fitcheck-llm 0.3.1), both while memory was free; 1.04-1.07 near a full card (PEFT benchmark on
# L40S). Sharded: 1.15-1.20 (torchtitan, H100, FSDP2); with the planner's headroom ours comes to 1.18. Read 2026-11.
RESERVED_SINGLE = 1.06
RESERVED_SHARDED = 1.12
# CUDA context and loaded kernels: 0.14 GiB measured on T4 (fitcheck-llm 0.3.1), 0.3-0.8 GiB usual on Ampere and newer.
CONTEXT_BYTES = round(0.55 * GIB)
# NCCL's channel buffers for a few communicators: about 0.3-1 GiB; not measured.
NCCL_BYTES = round(0.6 * GIB)
# cuBLAS workspaces, one per thread that runs products: 2 x 8.125 MiB measured on A100, 32 MiB class on Hopper.
WORKSPACE_BYTES = 2 * 32 * (1 << 20)


def reserved_factor(world_size: int) -> float:
    """Expected max_memory_reserved / max_memory_allocated."""
    return RESERVED_SINGLE if world_size == 1 else RESERVED_SHARDED


class _Card(Protocol):
    @property
    def measured(self) -> Measured | None: ...


def context_bytes(card: _Card) -> int:
    """What a process takes before its first tensor: as it was measured, of a GPU's memory or as a process of a CPU."""
    found = card.measured
    gib = None if found is None else found.process_gib if found.device == "cpu" else found.context_gib
    return CONTEXT_BYTES if gib is None else round(gib * GIB)


def device_overhead_bytes(world_size: int, context: int = CONTEXT_BYTES) -> int:
    """Memory of a rank outside torch's allocator; `context` in bytes."""
    return context + WORKSPACE_BYTES + (NCCL_BYTES if world_size > 1 else 0)


def allocatable_bytes(gpu_memory_gib: float, world_size: int, context: int = CONTEXT_BYTES) -> int:
    """Allocated bytes that fit a card of `gpu_memory_gib`, per rank, beside its overhead and the allocator's cache."""
    capacity = round(gpu_memory_gib * GIB) - device_overhead_bytes(world_size, context)
    return max(0, int(capacity / reserved_factor(world_size)))
