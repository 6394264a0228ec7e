"""What ranks send each other in a step: weights and gradients of the strategy, activations inside a layer."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from recipec.axes.strategies import DEEPSPEED, ONE_PROCESS, TORCH_DDP, TORCH_FSDP
from recipec.catalog.architecture import Architecture
from recipec.estimate.links import Group, Link, transfer_seconds
from recipec.estimate.step import Step
from recipec.layout import Layout

# Our decisions: the share of a micro step behind which the strategy's communication can hide, and of each transfer what
# cannot, since the first and the last have nothing to hide behind.
HIDDEN_SHARE = 0.8
EXPOSED_SHARE = 0.05


class Exchange(Struct, frozen=True):
    """Collectives over one group: bytes of one full copy that they move, and how many they are."""

    group: Group
    per_micro_step: float = 0.0
    per_step: float = 0.0
    collectives: int = 0  # in a micro step
    reduces: bool = False  # all-reduces
    to_all: bool = False  # all-to-alls
    follows_optimizer: bool = False  # what is sent per step waits for the optimizer: no computation runs beside it


def communication_seconds(architecture: Architecture, layout: Layout, step: Step, link: Link, micro: float) -> float:
    """What communication adds to a step of `layout.accumulation` micro steps that compute `micro` seconds each.

    What is sent once a step hides behind the last micro step, as far as that micro step's own traffic leaves room.
    """
    waited = sum(_each(exchange, link) for exchange in inside_layers(architecture, layout, step))
    moved = exchanges(layout, step, architecture.num_layers)
    each = sum(_each(exchange, link) for exchange in moved)
    last = sum(_last(exchange, link) for exchange in moved if not exchange.follows_optimizer)
    behind = sum(_last(exchange, link) for exchange in moved if exchange.follows_optimizer)
    room = HIDDEN_SHARE * micro
    return layout.accumulation * (waited + _exposed(each, room)) + _exposed(last, max(0.0, room - each)) + behind


def _exposed(seconds: float, room: float) -> float:
    """What of a transfer does not hide behind so many seconds of computation."""
    return max(seconds - room, EXPOSED_SHARE * seconds)


def _each(exchange: Exchange, link: Link) -> float:
    moved = exchange.per_micro_step
    kind = {"reduces": exchange.reduces, "to_all": exchange.to_all}
    return transfer_seconds(moved, exchange.group, link, exchange.collectives, **kind)


def _last(exchange: Exchange, link: Link) -> float:
    return transfer_seconds(exchange.per_step, exchange.group, link, reduces=exchange.reduces)


def exchanges(layout: Layout, step: Step, layers: int) -> list[Exchange]:
    """What the strategy communicates, behind the computation: each engine in its way."""
    engine = layout.spreads.engine
    if engine not in _EXCHANGED_BY:
        raise ValueError(f"strategy {layout.strategy}: the traffic of engine {engine} is not known")
    return _EXCHANGED_BY[engine](layout, step, layers)


def _between_replicas(layout: Layout, step: Step, layers: int) -> list[Exchange]:
    """DDP all-reduces its gradients once a step."""
    sent = 2.0 * step.fixed.path.gradient * step.fixed.sizes.trainable
    return [Exchange(Group(layout.mesh.replicate), per_step=sent, reduces=True)]


def _between_shards(layout: Layout, step: Step, layers: int) -> list[Exchange]:
    """FSDP and ZeRO-3 send weights in every pass and gradients once, HSDP also its gradients' shards; ZeRO-3 also the
    weights of a teacher.

    All in the compute type: reduce_dtype of the policy in train.py, and DeepSpeed 0.19's communication_data_type.
    """
    mesh, sizes, path = layout.mesh, step.fixed.sizes, step.fixed.path
    each = float(path.compute)
    weights, gradients = each * sizes.params - _less_where_packed(step), float(path.reduced) * sizes.trainable
    shards = Group(mesh.shard * mesh.context, mesh.tensor)
    copies = Group(mesh.replicate, mesh.tensor * shards.size)
    between_copies = Exchange(copies, 2 * gradients / shards.size, collectives=layers + 2, reduces=True)
    gathers = step.fixed.weight_passes
    taught = each * step.fixed.teacher.gathered_params if step.fixed.teacher else 0.0
    sharded = Exchange(shards, gathers * weights + taught + gradients, collectives=(gathers + 1) * (layers + 2))
    return [sharded, between_copies] if copies.size > 1 else [sharded]


def _less_where_packed(step: Step) -> float:
    """Bytes that a 4-bit base saves of those that every weight in the compute type would be: it travels packed."""
    path, sizes = step.fixed.path, step.fixed.sizes
    return (path.compute - path.quantized + path.second_scales) * sizes.linear if path.quantized else 0.0


def _of_deepspeed(layout: Layout, step: Step, layers: int) -> list[Exchange]:
    """ZeRO-1 all-reduces gradients once a step and ZeRO-2 in every micro step: DeepSpeed 0.19 all-reduces buckets
    (use_multi_rank_bucket_allreduce). Both gather the updated weights at the end of the optimizer's step, on the
    stream that computes (its stage_1_and_2.py, `step`).
    """
    if layout.spreads.shards_weights:
        return _between_shards(layout, step, layers)
    mesh, sizes = layout.mesh, step.fixed.sizes
    trained = float(step.fixed.path.compute * (sizes.trainable - sizes.elsewhere))
    shards = Group(mesh.shard * mesh.context, mesh.tensor)
    weights = Exchange(shards, per_step=trained, follows_optimizer=True)
    if layout.spreads.shards_gradients:
        return [Exchange(shards, per_micro_step=2 * trained, reduces=True), weights]
    return [Exchange(shards, per_step=2 * trained, reduces=True), weights]


_EXCHANGED_BY: dict[str, Callable[[Layout, Step, int], list[Exchange]]] = {
    ONE_PROCESS: _between_replicas,
    TORCH_DDP: _between_replicas,
    TORCH_FSDP: _between_shards,
    DEEPSPEED: _of_deepspeed,
}


def inside_layers(architecture: Architecture, layout: Layout, step: Step) -> list[Exchange]:
    """What a layer waits for, in every pass over it: forward, backward, recomputation, passes without a gradient.

    Tensor parallel: an all-reduce behind attention and one behind the feed-forward block (Shoeybi et al. 2019).
    Context parallel: keys and values of the whole sequence. Expert parallel: each token to its experts and back.
    """
    mesh, width = layout.mesh, step.fixed.path.compute * step.tokens
    passes = (2 + step.fixed.scored) * architecture.num_layers + layout.recomputed(architecture.num_layers)
    hidden, found = width * architecture.hidden_size, []
    if mesh.tensor > 1:
        found.append(Exchange(Group(mesh.tensor), passes * 2 * 2 * hidden, collectives=2 * passes, reduces=True))
    if mesh.context > 1:
        mean = architecture.cached_features / max(1, architecture.attention_layers)
        keys_and_values = width * mesh.context * mean / mesh.tensor
        found.append(Exchange(Group(mesh.context, mesh.tensor), passes * keys_and_values, collectives=passes))
    if mesh.expert > 1 and architecture.moe:
        sent = hidden * architecture.moe.per_token * (step.fixed.path.capacity_factor or 1.0)
        group = Group(mesh.expert, mesh.tensor)  # neighboring data-parallel ranks
        found.append(Exchange(group, passes * 2 * sent, collectives=2 * passes, to_all=True))
    return found
