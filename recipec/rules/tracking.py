"""What is logged, where, how often, and the seed that makes it repeatable."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.units import counted


@rule(
    "TRACK-001",
    decides="tracker",
    key="track.to",
    trains=False,
    watch="loss: appears in the tracker after the first logging interval",
    source="docs/rule-books/001.md, Experiment tracking setup; Rules; Completion criteria; docs/rule-books/002.md, "
    "Step 1; Step 5; Best practices; Anti-patterns; docs/rule-books/003.md, Stack defaults (against: MLflow or W&B)",
)
def tracker() -> Choice:
    """Tracker: TensorBoard files in the output folder.

    Rule book 001 accepts W&B, MLflow or TensorBoard. Rule book 002 logs to TensorBoard in its first example and wants
    MLflow or W&B in its best practices, as rule book 003 does. TensorBoard needs no server, no account and no network,
    so a bundle runs anywhere. Set `track.to` to "wandb" or "mlflow" for the others.
    """
    return Choice("tensorboard", "TensorBoard needs no account and no server")


@rule(
    "TRACK-002",
    decides="logging_steps",
    key="train.logging_steps",
    trains=False,
    watch="loss, grad_norm, learning_rate: a new value after each interval",
    source="docs/rule-books/001.md, Step 4; What to log every N steps; docs/rule-books/002.md, Step 1 (against: every "
    "100 batches)",
)
def logging_steps(total_steps: int) -> Choice:
    """Logging interval: every 10 optimizer steps, every step in runs under 100 steps.

    Rule book 001 logs every 10 steps, rule book 002 every 100 batches. A short run would then have fewer than ten
    points, too few to see a trend or a spike.
    """
    every = 1 if total_steps < 100 else 10
    return Choice(every, f"enough points to see a trend over {counted(total_steps, 'step')}", accepts=(1, 100))


@rule(
    "TRACK-003",
    decides="seed",
    key="recipe.seed",
    watch="loss: repeats when the same bundle runs on the same hardware",
    source="docs/rule-books/002.md, Step 1; docs/rule-books/001.md, Data splitting & validation (against: no seed); "
    "Rules",
)
def seed() -> Choice:
    """Seed of the split, the adapter's initial values, the order of the rows and dropout: 42.

    Rule book 002 sets 42. Rule book 001 wants reproducible runs and leaves its own split without a seed. 42 is also the
    default of transformers, so writing it out changes nothing by itself.
    """
    return Choice(42, "default of transformers, written out so that a run can be repeated")
