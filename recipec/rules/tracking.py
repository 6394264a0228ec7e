"""What is logged, where, how often, and the seed that makes it repeatable."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.units import counted


@rule(
    "TRACK-001",
    decides="tracker",
    key="track.to",
    watch="loss, eval_loss: both curves appear in the tracker within the first logging interval",
    source="rule book 001, Experiment Tracking Setup, Completion Criteria; 003, Stack Defaults (MLflow or W&B)",
)
def tracker() -> Choice:
    """Decides where metrics go: TensorBoard files in the run's folder.

    001 accepts W&B, MLflow or TensorBoard, 003 prefers MLflow or W&B. TensorBoard needs no server, account or network,
    so a bundle runs anywhere unmodified; the others are one key away.
    """
    return Choice("tensorboard", "TensorBoard needs no account and no server")


@rule(
    "TRACK-002",
    decides="logging_steps",
    watch="loss, grad_norm, learning_rate: a line every so many steps",
    source="rule book 001, Step 4 (logging_steps=10), What to log every N steps",
)
def logging_steps(total_steps: int) -> Choice:
    """Decides after how many optimizer steps the metrics are logged: 10, and 1 in runs of less than 100 steps.

    001 logs every 10 steps. A short run would then have fewer than ten points, too few to see a trend or a spike.
    """
    every = 1 if total_steps < 100 else 10
    return Choice(every, f"enough points to see a trend in {counted(total_steps, 'step')}", accepts=(1, 100))


@rule(
    "TRACK-003",
    decides="seed",
    key="recipe.seed",
    watch="loss: two runs of the same bundle on the same hardware print the same curve",
    source="rule book 001, Data Splitting & Validation (no random_state: not repeatable), Rules (reproducibility)",
)
def seed() -> Choice:
    """Decides the seed of the split, the adapter's initial values, the order of the rows and dropout: 42.

    001 asks for reproducibility and leaves its own split unseeded. One seed serves all; 42 is transformers' default, so
    that an emitted value changes nothing by itself.
    """
    return Choice(42, "the default of transformers, written out so that a run can be repeated")
