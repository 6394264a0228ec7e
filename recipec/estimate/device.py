"""From allocated bytes to what a card must have: the caching allocator, the CUDA context, NCCL; or a CPU's process."""

from __future__ import annotations

from msgspec import Struct

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


class Overhead(Struct, frozen=True):
    """What a rank takes beside its tensors, and around them: assumed, unless the machine was measured."""

    context_bytes: int = CONTEXT_BYTES  # before the first tensor
    library_bytes: int = WORKSPACE_BYTES
    communication_bytes: int = NCCL_BYTES  # of several ranks
    heap_factor: float | None = None  # reserved / allocated of a CPU's process

    def reserved_factor(self, world_size: int) -> float:
        """Expected max_memory_reserved / max_memory_allocated."""
        return self.heap_factor or (RESERVED_SINGLE if world_size == 1 else RESERVED_SHARDED)

    def outside_bytes(self, world_size: int) -> int:
        """Memory of a rank outside its allocator."""
        return self.context_bytes + self.library_bytes + (self.communication_bytes if world_size > 1 else 0)

    def allocatable_bytes(self, memory_gib: float, world_size: int) -> int:
        """Allocated bytes that fit a device of `memory_gib`, per rank, beside the rest and the allocator's cache."""
        capacity = round(memory_gib * GIB) - self.outside_bytes(world_size)
        return max(0, int(capacity / self.reserved_factor(world_size)))


ASSUMED = Overhead()
