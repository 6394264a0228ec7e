"""When the state of a run is written, and how much of it is kept."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "CKPT-001",
    decides="save_every",
    key="train.save_every",
    watch="eval_loss: every evaluation has its checkpoint, so the best one can be loaded",
    source="rule book 001, Step 4 (save_steps=500 against eval_steps=200); 003, Quality Gates (best checkpoint)",
)
def save_every(eval_every: float) -> Choice:
    """Decides how often a checkpoint is written: at every evaluation.

    001 evaluates every 200 and saves every 500 steps, which contradicts its own load_best_model_at_end: Trainer wants
    saving to be a multiple of evaluation and refuses. A multiple such as 2 x is accepted as a share and may still miss:
    both shares are rounded up on their own (of 330 steps, 0.05 is every 17 and 0.1 every 33, and 34 is not saved), and
    then the best evaluation has no checkpoint. Equal shares cannot drift apart.
    """
    return Choice(
        eval_every, "every evaluation has its checkpoint, so the best one can be loaded", accepts=(eval_every, 1.0)
    )


@rule(
    "CKPT-002",
    decides="keep_checkpoints",
    key="train.keep_checkpoints",
    watch="eval_loss, epoch: the best and the newest checkpoint are both on disk",
    source="rule book 001, Step 4 (save_total_limit=3), Storage Requirements (3-5x model size)",
)
def keep_checkpoints() -> Choice:
    """Decides how many checkpoints stay on disk: 3.

    001 keeps 3 and budgets three to five times the model's size. Its own CheckpointManager deletes the worst by loss,
    which may be the newest, and then nothing can be resumed; Trainer keeps the best and the newest. Two are therefore
    the least, and the third survives if the newest was cut off while it was written.
    """
    return Choice(3, "the best, the newest and one before it", accepts=(2, 10))
