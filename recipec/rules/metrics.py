"""The metrics that an emitted bundle logs: the only ones a `watch` may name."""

from __future__ import annotations

from recipec.axes import Method
from recipec.axes.loops import LOOPS

_OF_ALL = (
    *("grad_norm", "learning_rate", "epoch", "num_tokens", "train_eval_gap"),
    *("peak_memory_gib", "tokens_per_second", "dropped_rows"),
)
_OF_LOSSES = "loss", "eval_loss"  # not where rewards judge: that loss starts anew with every generation
_OF_ROUTED = ("balance_loss", "expert_load", "dropped_tokens", "eval_dropped_tokens")  # of layers of DeepSpeed-MoE
_OF_HELD = ("ewc_penalty",)  # with `train.ewc`, of methods that can have it
_OF_ROWS = ("trained_tokens",)  # not where the model writes the answers that it learns from


def metrics_of(method: Method) -> frozenset[str]:
    """The metrics that tell how a training with this method goes."""
    own = () if method.earns else _OF_LOSSES if method.generates else (*_OF_LOSSES, *_OF_ROWS)
    held = _OF_HELD if method.learns_tokens else ()
    routed = _OF_ROUTED if any(method.name in loop.dispatches for loop in LOOPS.values()) else ()
    return frozenset((*_OF_ALL, *own, *held, *routed, method.judged_by, *method.metrics, *method.acts_metrics))


def watched(watch: str) -> tuple[str, ...]:
    """Return the metrics a `watch` names: those before its first colon, "loss, eval_loss: should fall"."""
    names, _, _ = watch.partition(":")
    return tuple(name.strip() for name in names.split(",") if name.strip())
