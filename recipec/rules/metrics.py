"""The metrics that an emitted bundle logs: the only ones a `watch` may name."""

from __future__ import annotations

METRICS = frozenset(
    {
        "loss",
        "eval_loss",
        "perplexity",
        "grad_norm",
        "learning_rate",
        "epoch",
        "mean_token_accuracy",
        "eval_mean_token_accuracy",
        "entropy",
        "num_tokens",
        "rewards/margins",
        "rewards/accuracies",
        "rewards/chosen",
        "logps/chosen",
        "peak_memory_gib",
        "tokens_per_second",
        "samples_per_second",
        "dropped_rows",
        "trained_tokens",
        "train_eval_gap",
    }
)


def watched(watch: str) -> tuple[str, ...]:
    """Return the metrics a `watch` names: those before its first colon, "loss, eval_loss: should fall"."""
    names, _, _ = watch.partition(":")
    return tuple(name.strip() for name in names.split(",") if name.strip())
