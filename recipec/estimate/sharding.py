"""Buffers that a strategy itself keeps on each rank: gathered parameters, buckets, full-size gradients in flight.

Sources (read 2026-11): torch 2.13 `fully_shard` (flat all-gather buffer, copy-out, reduce-scatter input),
accelerate 1.15 `fsdp2_prepare_model` (embedding and [norm, head] are units of their own, the latter stays gathered),
torch DDP reducer (buckets are copies of all gradients), DeepSpeed 0.19 `stage_1_and_2.py`, `stage3.py`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import strategies
from recipec.estimate.codepath import CodePath
from recipec.estimate.sizes import Sizes
from recipec.estimate.workload import Workload
from recipec.layout import Layout

ZERO3_PREFETCH = 0.9  # our stage3_prefetch_bucket_size in units of hidden_size squared
ZERO3_REUSE_ELEMENTS = 1_000_000_000  # stage3_max_reuse_distance and stage3_max_live_parameters, DeepSpeed defaults


class Gathered(Struct, frozen=True):
    """Bytes per rank while a forward runs: in its embedding, its layers, before its head and in it."""

    first: float = 0.0  # the embedding
    layers: float = 0.0
    head: float = 0.0
    entering: float = 0.0  # the head is being gathered and does not run yet

    def beside(self, held: float) -> Gathered:
        """The same where another model holds so many bytes."""
        return Gathered(self.first + held, self.layers + held, self.head + held, self.entering + held)


class Buffers(Struct, frozen=True):
    """Bytes per rank in the situations of a step."""

    forward: Gathered = Gathered()
    reference: Gathered = Gathered()  # of the reference, with what the policy still holds
    loss: float = 0.0  # the layers have run, the loss is differentiated
    backward: float = 0.0  # the first layer to run backward
    last: float = 0.0  # the last one: nothing is left to prefetch
    end: float = 0.0  # the embedding's gradient is reduced
    held: float = 0.0  # between the policy's forward and its backward
    idle: float = 0.0  # kept at all times


def buffers(layout: Layout, work: Workload, hidden: int, sizes: Sizes, path: CodePath) -> Buffers:
    """What `layout`'s strategy adds to a rank; raises ValueError for an engine whose buffers nobody has described."""
    if layout.mesh.world_size == layout.mesh.tensor:
        return Buffers()
    match layout.spreads.engine, layout.spreads.shards_weights:
        case strategies.TORCH_FSDP, _ if work.fsdp == 1:
            return _fsdp1(sizes, path, layout)
        case strategies.TORCH_FSDP, _:
            sharded = _beside_second(_fsdp2(sizes, path, layout), sizes, path, layout)
            return _between_copies(sharded, sizes, path, layout)
        case strategies.DEEPSPEED, True:
            return _zero3(hidden, sizes, path, layout)
        case strategies.DEEPSPEED, False:
            return _zero2(hidden, sizes, path, layout)
        case strategies.TORCH_DDP, _:
            return _at_all_times(sizes.trainable * path.gradient)
        case strategies.ONE_PROCESS, _:
            return Buffers()
    raise ValueError(f"strategy {layout.strategy}: the buffers of engine {layout.spreads.engine} are not known")


def _at_all_times(size: float) -> Buffers:
    throughout = Gathered(size, size, size)
    return Buffers(throughout, throughout, loss=size, backward=size, last=size, end=size, held=size, idle=size)


def _fsdp1(sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """One layer in use, one prefetched, gradients on their way, and the root unit, which stays gathered to the end."""
    layer = _gathered(sizes, path, layout)
    full = layout.adapts.trains_all
    root = path.compute * (sizes.embedding + sizes.head)
    reduced = 2 * path.compute * sizes.layer if full else 0
    vocabulary = path.compute * sizes.embedding if full else 0
    gathered = Gathered(root, root, root)
    return Buffers(
        forward=gathered,
        reference=gathered,
        loss=root,
        backward=2 * layer + reduced + (vocabulary if full else root),
        last=layer + reduced + root,
        end=2 * vocabulary + root,
        held=root,
    )


def _fsdp2(sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """Gathered layers in use, prefetched and reduced, and the vocabulary matrices, read off a simulated step.

    A unit that is being gathered exists twice. Tied matrices stay gathered, with the head's gradient, to the end.
    PEFT's wrapper hides the final norm from accelerate, so TRL gathers the head itself. Nothing is reduced for frozen
    weights, but the embedding is still prefetched. TRL shards DPO's reference as one unit: all of it is gathered.
    """
    layer, vocabulary = _gathered(sizes, path, layout), path.compute * sizes.embedding
    held = vocabulary if sizes.tied else 0
    matrix = held or path.compute * sizes.head  # of the output
    first = max(2 * vocabulary, vocabulary + held + 2 * layer, 3 * layer)
    running = max(0, sizes.running_layer - sizes.gathered_layer) * path.compute
    entering = 2 * matrix + layer if layout.adapts.trains_all and not held else 0
    forward = Gathered(first, 2 * (layer + running) + held, matrix + layer, entering)
    if not layout.adapts.trains_all:
        saved = matrix - held  # the policy's gathered head, which waits for its backward
        return Buffers(
            forward=forward,
            reference=Gathered(forward.first + saved - held, forward.layers + saved, forward.head + saved),
            loss=matrix + layer,
            backward=2 * layer + held,
            last=layer + vocabulary,
            end=held,
            held=matrix,
        )
    whole = 2 * path.compute * sizes.params + held
    return Buffers(
        forward=forward,
        reference=Gathered(whole, whole, whole),
        loss=matrix + layer,
        backward=max(3 * layer + matrix, 4 * layer) + (vocabulary + layer if held else 0),
        last=3 * layer + vocabulary + held,
        end=2 * vocabulary + layer + 2 * held,
        held=matrix,
    )


def _beside_second(sharded: Buffers, sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """The second embedding is in the outermost unit, which stays gathered; in the end its gradient is whole beside it,
    and neither embedding's is reduced yet. Read off a simulated step (2026-11-28)."""
    if not sizes.second:
        return sharded
    second, vocabulary = path.compute * sizes.second, path.compute * sizes.embedding
    waiting = path.gradient * (sizes.second + sizes.embedding) / path.gradient_shards
    end = 2 * second - waiting if layout.adapts.trains_all else second
    forward = sharded.forward.beside(second)
    return replace(
        sharded,
        forward=replace(forward, first=max(forward.first, 2 * (second + vocabulary))),
        reference=sharded.reference.beside(second),
        loss=sharded.loss + second,
        backward=sharded.backward + second,
        last=sharded.last + second,
        end=sharded.end + end,
        held=sharded.held + second,
    )


def _between_copies(sharded: Buffers, sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """HSDP keeps each unit's reduced gradients in the compute type until the backward pass has ended.

    Source: torch 2.13 `FSDPParamGroup._all_reduce_state`, and a simulated step: the embedding's come last.
    """
    if layout.mesh.replicate == 1 or not layout.adapts.trains_all:
        return sharded
    share = path.compute / path.gradient_shards
    end = share * (sizes.trainable - sizes.embedding - sizes.second)
    first = share * sizes.head
    return replace(
        sharded, backward=sharded.backward + first, last=sharded.last + end - share * sizes.layer, end=sharded.end + end
    )


def gathered_by_zero3(hidden: int, layer_bytes: float, sizes: Sizes, path: CodePath) -> float:
    """Bytes in a forward: a layer or those that DeepSpeed keeps for their reuse, the prefetch bucket, the embedding."""
    reused = path.compute * min(sizes.params, ZERO3_REUSE_ELEMENTS // 2)
    return max(layer_bytes, reused) + path.compute * (ZERO3_PREFETCH * hidden * hidden + sizes.embedding)


def _zero3(hidden: int, sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """What a forward gathers, and gradients on their way in the bucket."""
    layer = _gathered(sizes, path, layout)
    bucket = path.compute * hidden * hidden
    live = gathered_by_zero3(hidden, layer, sizes, path)
    full = layout.adapts.trains_all
    gradients = path.compute * (sizes.layer if full else 0) + bucket
    vocabulary = path.compute * sizes.embedding if full else 0
    backward = live + gradients
    end = live + bucket + 2 * vocabulary
    each = Gathered(live, live, live)
    return Buffers(each, each, loss=live, backward=backward, last=backward, end=end, held=live)


def _zero2(hidden: int, sizes: Sizes, path: CodePath, layout: Layout) -> Buffers:
    """The reduce bucket; a gradient larger than it (the vocabulary matrices) is reduced on its own."""
    bucket = path.gradient * hidden * hidden
    full = layout.adapts.trains_all
    vocabulary = path.gradient * max(sizes.embedding, sizes.second) if full else 0
    layer = path.gradient * sizes.layer if full else 0
    first = bucket + layer + vocabulary
    each, end = Gathered(bucket, bucket, bucket), bucket + 2 * vocabulary
    return Buffers(each, each, loss=bucket, backward=first, last=bucket + layer, end=end, held=bucket, idle=bucket)


def _gathered(sizes: Sizes, path: CodePath, layout: Layout) -> float:
    """Bytes of one gathered layer; those of a 4-bit base are gathered packed, with the scales that are shared."""
    if not layout.adapts.quantized:
        return path.compute * sizes.gathered_layer
    packed = (path.quantized - path.second_scales) * sizes.layer_linear
    return path.compute * (sizes.layer - sizes.layer_linear) + packed
