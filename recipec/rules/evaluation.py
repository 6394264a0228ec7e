"""What is held out, how often it is looked at, and when to stop."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.units import counted


@rule(
    "EVAL-001",
    decides="eval_fraction",
    key="data.eval_fraction",
    watch="eval_loss: moves smoothly; jumps from one evaluation to the next mean too few rows",
    source="rule book 001, Data Splitting & Validation (80/10/10)",
)
def eval_fraction(has_eval_file: bool, stage: str, examples: int) -> Choice:
    """Decides the share of the rows that is held out for evaluation while training: 10 %, less of a corpus.

    001 splits 80/10/10; its second split of 0.111 of the remaining 90 % is this 10 %, and it forgets the seed, which
    the emitted split has. A file given as `data.eval` replaces it. Pretraining needs its text for learning, and
    EVAL-003 reads no more than 1,000 rows of it: from 100,000 texts on 1 % is held out, from a million on 0.1 %.
    """
    if has_eval_file:
        return Choice(0.0, "data.eval is given, so no training row is held out", accepts=(0.0, 0.3))
    share, why = _held_out(stage, examples)
    return Choice(share, why, accepts=(min(share, 0.01), 0.3))


@rule(
    "EVAL-002",
    decides="test_fraction",
    key="data.test_fraction",
    watch="eval_loss: the test loss after training is close to the best eval_loss",
    source="rule book 001, Data Splitting & Validation (80/10/10)",
)
def test_fraction(has_test_file: bool, stage: str, examples: int) -> Choice:
    """Decides the share of the rows that no decision may see: 10 %, less of a corpus.

    The evaluation rows choose the checkpoint and so are no longer a fair measure of it; 001 therefore keeps a third
    part. A file given as `data.test` replaces it. Of a large corpus it is as small as the evaluation's (EVAL-001).
    """
    if has_test_file:
        return Choice(0.0, "data.test is given, so no training row is held out", accepts=(0.0, 0.3))
    return Choice(*_held_out(stage, examples), accepts=(0.0, 0.3))


def _held_out(stage: str, examples: int) -> tuple[float, str]:
    """The share of the rows for one of the two parts, and why."""
    if not method_of(stage).random_weights or examples < 100_000:
        return 0.1, "the usual share of a split into 80%, 10% and 10%"
    share = 0.01 if examples < 1_000_000 else 0.001
    return share, f"{round(share * examples):,} of {examples:,} texts are enough, since evaluation reads at most 1,000"


@rule(
    "EVAL-003",
    decides="eval_samples",
    watch="eval_loss, samples_per_second: evaluation stays a small part of the run",
    source="rule book 001, Evaluation Loop Architecture (500-1000 samples)",
)
def eval_samples(params: int) -> Choice:
    """Decides how many held-out rows an evaluation during training reads at most.

    001 wants a fixed subset of 500 to 1000 samples: 1000, and 500 for models over 7B, whose forward pass is dear. The
    subset is drawn once, with the recipe's seed, so that evaluations can be compared; after training all rows are read.
    """
    count = 500 if params > 7e9 else 1000
    return Choice(
        count,
        f"enough to compare evaluations, and few enough for {params / 1e9:.1f}B parameters",
        accepts=(100, 10_000),
    )


@rule(
    "EVAL-004",
    decides="eval_every",
    key="train.eval_every",
    watch="eval_loss, train_eval_gap: enough points to see a turn, at least 5",
    source="rule book 003, Anti-Patterns (every 50-100 steps); 001, Step 4 (every 200), Anti-Pattern 4",
)
def eval_every(adaptation: str, total_steps: int) -> Choice:
    """Decides how often to evaluate, as a share of the run.

    003 says every 50 to 100 steps, 001 every 200, and less often if evaluation is slow. The share is the smallest of
    0.01, 0.02, 0.05, 0.1 and 0.2 that is at least 50 steps: 50 to 125 steps in runs of 250 to 10,000. Shorter runs
    still evaluate five times, longer ones never more than a hundred times. Full fine-tuning writes all weights at every
    evaluation (CKPT-001), so it never goes below 0.05, twenty times.
    """
    shares = (0.05, 0.1, 0.2) if ADAPTATIONS[adaptation].trains_all else (0.01, 0.02, 0.05, 0.1, 0.2)
    share = next((s for s in shares if s * total_steps >= 50), 0.2)
    steps = max(1, round(share * total_steps))
    often = f"every {counted(steps, 'step')}, {round(1 / share)} times"
    return Choice(share, f"{often} in {counted(total_steps, 'step')}", accepts=(0.01, 0.25))


@rule(
    "EVAL-005",
    decides="best_metric",
    watch="eval_loss: the checkpoint with the lowest value is loaded at the end",
    source="rule book 001, Step 4 (metric_for_best_model, load_best_model_at_end); 003, Quality Gates",
)
def best_metric() -> Choice:
    """Decides which checkpoint is the result: the one with the lowest eval_loss, not the last.

    001 and 003 both say best by validation loss. The pinned Trainer checks the metric's name only at the first
    evaluation, so the bundle evaluates once before it trains.
    """
    return Choice("eval_loss", "the checkpoint with the lowest eval_loss is the result, not the last one")


@rule(
    "EVAL-006",
    decides="early_stopping_patience",
    watch="eval_loss, train_eval_gap: training ends after this many evaluations without a better eval_loss",
    source="rule book 001, Anti-Pattern 1 (3+ eval steps; early stopping when eval loss plateaus)",
)
def early_stopping_patience() -> Choice:
    """Decides after how many evaluations without improvement training stops: 3.

    001 calls it overfitting when the gap stays over 20 % for three evaluations or more. Its gap, train_loss -
    eval_loss, is negative exactly then; `train_eval_gap` is (eval_loss - loss) / loss, and its limit is 0.2.
    """
    return Choice(
        3,
        "so many evaluations without a better eval_loss are overfitting; train_eval_gap above 0.2 warns sooner",
        accepts=(1, 10),
    )
