"""Experts with a capacity: what DeepSpeed-MoE is told beside the model's own numbers."""

from __future__ import annotations

from recipec.rules.core import Choice, rule

_BOOK = "docs/rule-books/000.md, Strategy table; Description"
_SWITCH = "Switch Transformers (arXiv 2101.03961, 2021), section 2.2"
_ST_MOE = "ST-MoE (arXiv 2202.08906, 2022)"
_LAYER = "DeepSpeed 0.19 moe/layer.py (MoE)"
_WATCH = "dropped_tokens: near 0 once the load is even. Above 0.05 → raise `train.experts.capacity_factor`"


@rule(
    "MOE-001",
    decides="capacity_factor",
    key="train.experts.capacity_factor",
    watch=_WATCH,
    source=f"{_BOOK}; {_SWITCH}; {_ST_MOE}; {_LAYER}",
)
def capacity_factor() -> Choice:
    """How many tokens an expert has room for in training, as a multiple of its even share.

    With E experts, k of them for each token, and n tokens of a micro batch on a rank, each expert has room for
    factor x k x n / E of them. Each rank fills its own share of the room, so the number of ranks that share experts
    changes nothing. What goes beyond is dropped: the token passes the layer without that expert. More room costs
    memory, computation and communication in proportion, whether it is used or not. Switch Transformers and ST-MoE
    train with 1.25. A factor of E / k has room for everything, and drops nothing.
    """
    return Choice(1.25, "a quarter more than an even share drops few tokens once the load is balanced", (1.0, 4.0))


@rule(
    "MOE-002",
    decides="eval_capacity_factor",
    key="train.experts.eval_capacity_factor",
    watch="eval_dropped_tokens: near 0. Above 0.01 → raise `train.experts.eval_capacity_factor`",
    source=f"{_ST_MOE}; {_LAYER}",
)
def eval_capacity_factor() -> Choice:
    """The capacity factor of the evaluations on the way.

    evaluate.py scores the result with transformers, which drops nothing. Evaluations during training run in the
    layers of DeepSpeed-MoE, where more room costs less than in training, since nothing is kept for a backward pass.
    """
    return Choice(2.0, "evaluations keep no activations, so that they have room for uneven loads", (1.0, 256.0))


@rule(
    "MOE-003",
    decides="min_capacity",
    key="train.experts.min_capacity",
    watch=_WATCH,
    source=_LAYER,
)
def min_capacity() -> Choice:
    """How many tokens an expert has room for at least, however few the micro batch has.

    It matters for micro batches of few tokens and for many experts alone. The value is DeepSpeed's default.
    """
    return Choice(4, "matters only where a micro batch has few tokens for each expert")


@rule(
    "MOE-004",
    decides="balance_loss",
    key="train.experts.balance_loss",
    watch="expert_load, balance_loss: both near 1. expert_load above 2 after the warmup → raise "
    "`train.experts.balance_loss`",
    source=f"{_BOOK}; {_SWITCH}; DeepSpeed-MoE (arXiv 2201.05596, 2022), table 1",
)
def balance_loss() -> Choice:
    """The weight of the loss that keeps the load of the experts even.

    The loss of a layer is E x sum over its experts of (share of the tokens that go to it) x (mean probability of the
    router for it): 1 where all are equal, more where few experts get most. It is added for every layer with experts.
    Without it a router sends most tokens to few experts, and what goes beyond their room is dropped. `loss` and
    `eval_loss` are without it, and `balance_loss` is logged as its mean over the layers. Switch Transformers searched
    0.1 to 0.00001, and trains with 0.01, as DeepSpeed-MoE does.
    """
    return Choice(0.01, "balances the load quickly without a part in the loss that the model would feel", (1e-4, 0.1))
