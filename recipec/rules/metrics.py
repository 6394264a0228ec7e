"""The metrics that an emitted bundle logs: the only ones a `watch` may name."""

from __future__ import annotations

from recipec.axes import METHODS

_OF_ALL = (
    *("loss", "eval_loss", "grad_norm", "learning_rate", "epoch", "num_tokens", "train_eval_gap"),
    *("peak_memory_gib", "tokens_per_second", "dropped_rows", "trained_tokens"),
)
METRICS = frozenset((*_OF_ALL, *(name for method in METHODS.values() for name in method.metrics)))


def watched(watch: str) -> tuple[str, ...]:
    """Return the metrics a `watch` names: those before its first colon, "loss, eval_loss: should fall"."""
    names, _, _ = watch.partition(":")
    return tuple(name.strip() for name in names.split(",") if name.strip())
