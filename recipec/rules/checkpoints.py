"""When the state of a run is written, and how much of it is kept."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "CKPT-001",
    decides="save_every",
    key="train.save_every",
    watch="eval_loss: the checkpoint with the lowest value is loaded at the end",
    source="docs/rule-books/001.md, Step 4; docs/rule-books/002.md, Step 7; Best practices; Anti-patterns; "
    "docs/rule-books/003.md, Quality gates",
)
def save_every(eval_every: float) -> Choice:
    """Checkpoint interval: a checkpoint at every evaluation.

    Rule books 002 and 003 want regular checkpoints and the best one kept. Rule book 001 evaluates every 200 steps and
    saves every 500, which contradicts its own load_best_model_at_end: the Trainer refuses to save at anything but a
    multiple of the evaluation interval (BAD-017).

    Rule book 002 writes a checkpoint in every epoch. recipec writes one in every evaluation, so that the best
    evaluation always has a checkpoint and a stopped run loses little. How often that is weighs the time that writing
    takes against what a failure loses (EVAL-004).

    You can set a multiple of `train.eval_every`, but the multiple can still miss. transformers rounds both shares up to
    whole steps: of 330 steps, 0.05 is every 17 and 0.1 is every 33, and the best evaluation may then have no
    checkpoint. Equal shares cannot drift apart.
    """
    return Choice(eval_every, "every evaluation has a checkpoint, so the best one can be loaded")


@rule(
    "CKPT-002",
    decides="keep_checkpoints",
    key="train.keep_checkpoints",
    watch="eval_loss, epoch: the output folder holds the best and the newest checkpoint",
    source="docs/rule-books/001.md, Step 4; Checkpointing architecture; Storage requirements; docs/rule-books/002.md, "
    "Step 7; Best practices; Anti-patterns",
)
def keep_checkpoints() -> Choice:
    """Number of checkpoints that stay on disk: 3.

    Rule book 001 keeps 3 and plans space for three to five times the size of the model. Rule book 002 keeps the best,
    the latest and one per epoch. The Trainer keeps the best and the newest, so 2 is the least that recipec accepts. The
    third is a spare in case the newest was cut off while it was written.

    The example of rule book 001 deletes the checkpoint with the highest loss, which may be the newest. A stopped run
    then has nothing to continue from.
    """
    return Choice(
        3, "the best, the newest, and a spare in case the newest was cut off while it was written", accepts=(2, 10)
    )
