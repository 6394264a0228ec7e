"""Floating-point operations of one token through a decoder: forward, and what a training step multiplies it by."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.estimate.bottlenecks import mixing_flops
from recipec.estimate.dispatched import padded_params
from recipec.estimate.experts import built_gradient_flops
from recipec.estimate.scores import masked, prefix_tokens, row_tokens
from recipec.estimate.step import Fixed
from recipec.estimate.workload import Workload
from recipec.layout import Layout


class Flops(Struct, frozen=True):
    """Operations per token."""

    layers: float  # all layers' matrix products, forward
    routed: float  # of these, those of experts that a token is sent to
    useful: float  # of these, those of experts that a token was not routed to left out
    attention: float  # all layers' score and value products, forward, causal half only
    head: float  # projection to the vocabulary, forward


class StepFlops(Struct, frozen=True):
    """Operations per trained token of one step."""

    products: float  # matrix products with weights, with what checkpointing repeats
    routed: float  # of these, those of experts, each of which sees a share of the tokens
    attention: float  # score and value products as the kernel computes them, with what checkpointing repeats
    model: float  # both without repetition, the causal half of attention: what the usual MFU counts
    taught: float  # of the products, those with a teacher's weights


@lru_cache(maxsize=1024)
def forward_flops(architecture: Architecture, seq_len_tokens: int) -> Flops:
    """Two operations per weight that computes a token, four per attended key and query feature."""
    kinds = architecture.layers_by_window.items()
    attended = sum(
        layers
        * attended_tokens(seq_len_tokens, window, architecture.chunked)
        * architecture.attending(window).query_size
        for window, layers in kinds
    )
    return Flops(
        layers=2.0 * (architecture.computed_params - architecture.embedding_params),
        routed=2.0 * _routed_weights(architecture),
        useful=2.0 * (architecture.active_params - architecture.embedding_params),
        attention=4.0 * attended,
        head=2.0 * architecture.vocab_size * architecture.hidden_size,
    )


def _routed_weights(architecture: Architecture) -> int:
    """Weights of the experts that one token is sent to; 0 where all run for every token."""
    if architecture.moe is None or architecture.moe.all_run:
        return 0
    one = sum(inputs * outputs for _, _, inputs, outputs in architecture.expert_shapes())
    return architecture.sparse_layers * architecture.moe.per_token * one


def seen_tokens(work: Workload) -> int:
    """Tokens that may attend to each other: of an example, where several share a sequence."""
    return work.example_tokens or work.seq_len_tokens


def attended_tokens(seq_len_tokens: int, window_tokens: int | None, chunked: bool = False) -> float:
    """Keys that a query sees on average under a causal mask, within a window or a chunk where there is one."""
    if window_tokens is None or window_tokens >= seq_len_tokens:
        return seq_len_tokens / 2
    if chunked:
        whole, rest = divmod(seq_len_tokens, window_tokens)
        return (whole * window_tokens**2 + rest**2) / (2 * seq_len_tokens)
    return window_tokens - window_tokens**2 / (2 * seq_len_tokens)


def step_flops(architecture: Architecture, layout: Layout, work: Workload, fixed: Fixed) -> StepFlops:
    """Forward, backward and recomputation of a step, and the passes without a gradient.

    Backward: one forward's worth for the inputs, one more for weights that train or are built from adapters; flash
    attention's is 2.5 forwards (Dao 2023). Checkpointing repeats the layers' forward, TRL's chunked head its own.
    """
    forward, code = forward_flops(architecture, seen_tokens(work)), fixed.code
    head = forward.head if code.to_vocabulary else 0.0
    backward = 2.0 if layout.adapts.trains_all else 1.0
    again = layout.recomputed_share(architecture.num_layers)
    passes, attended = 1 + backward + fixed.scored, 3.5 + fixed.scored
    slots = 2.0 * padded_params(architecture, work.capacity_factor)
    own = StepFlops(
        products=(forward.layers + slots) * (passes + again)
        + head * (passes + code.repeats)
        + built_gradient_flops(architecture, work.lora)
        + mixing_flops(architecture, work.lora, again),
        routed=(forward.routed + slots) * (passes + again),
        attention=_computed_attention(architecture, layout, work, fixed) * (attended + again),
        model=(forward.useful + head) * passes + forward.attention * attended,
        taught=0.0,
    )
    return own if work.teacher is None else _with_teacher(own, work.teacher, layout, work, fixed)


def _with_teacher(own: StepFlops, teacher: Architecture, layout: Layout, work: Workload, fixed: Fixed) -> StepFlops:
    """The teacher's own; the loss makes its product with the vocabulary a second time when it is differentiated."""
    forward = forward_flops(teacher, seen_tokens(work))
    model = fixed.taught * (forward.useful + forward.head)
    taught = fixed.taught * (forward.layers + 2 * forward.head)
    return StepFlops(
        products=own.products + taught,
        routed=own.routed,
        attention=own.attention + fixed.taught * _computed_attention(teacher, layout, work, fixed),
        model=own.model + model + fixed.taught * forward.attention,
        taught=taught,
    )


def _computed_attention(architecture: Architecture, layout: Layout, work: Workload, fixed: Fixed) -> float:
    """A forward's attention as it is computed: eager, or given a mask, it leaves nothing out."""
    products, sequences = 0.0, layout.micro_batch * fixed.sequences
    for window, layers in architecture.layers_by_window.items():
        whole = layout.attends.keeps_scores or masked(window, layout, work, sequences)
        seen = attended_tokens(seen_tokens(work), window, architecture.chunked)
        keys = row_tokens(layout, work) + prefix_tokens(work) if whole else seen
        products += layers * keys * architecture.attending(window).query_size
    return 4.0 * products
