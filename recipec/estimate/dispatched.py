"""Experts in layers of DeepSpeed-MoE: each has slots for a limited number of tokens, filled or not.

A token has `capacity_factor` x k slots on average. Sources: DeepSpeed 0.19 `moe/sharded_moe.py` (MOELayer,
_sparse_encode, _sparse_decode), and what the graph of a layer keeps, counted on a CPU (tests/estimate).
"""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.layout import Mesh


def dispatched(architecture: Architecture, path: CodePath) -> tuple[int, int, int]:
    """(saved, transient of the backward, transient of a forward) of the experts of a layer, in bytes per token.

    Kept: the router's input in fp32, the slots as the experts take them, gate and up with the activation and the
    product, and what each of a token's experts gives. Slots exist twice where they travel, and while they are read.
    """
    experts, hidden, held = architecture.moe, architecture.hidden_size, path.residual
    assert experts is not None
    slots = path.capacity_factor * experts.per_token
    sent, inner = held * slots * hidden, held * slots * experts.intermediate_size
    given = held * experts.per_token * hidden
    casted = 4 * hidden if held < 4 else 0  # the router computes in fp32
    saved = casted + sent + 4 * inner + given + 4 * ROUTER_NUMBERS * experts.count
    weighted = 4 * experts.per_token * hidden  # what experts give times its weight, in fp32
    return round(saved), round(2 * weighted + 2 * sent), round(3 * sent + weighted + 3 * inner)


ROUTER_NUMBERS = 4  # logits, probabilities and masks of a token, for each expert


def params_elsewhere(architecture: Architecture, mesh: Mesh) -> int:
    """Parameters of the experts that other ranks have."""
    whole = sum(count * inputs * outputs for _, count, inputs, outputs in architecture.expert_shapes())
    return architecture.sparse_layers * (whole - whole // mesh.expert)


def padded_params(architecture: Architecture, capacity_factor: float) -> float:
    """Weights that compute slots beyond a token's experts: empty ones are multiplied, too."""
    each = sum(inputs * outputs for _, _, inputs, outputs in architecture.expert_shapes())
    routed = architecture.moe.per_token if architecture.moe else 0
    return (capacity_factor - 1.0) * routed * each * architecture.sparse_layers if capacity_factor else 0.0
