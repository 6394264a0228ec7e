"""When the state of a run is written, and how much of it is kept."""

from __future__ import annotations

from math import ceil

from recipec.rules.core import Choice, rule
from recipec.rules.evaluation import PASSES_THAT_OVERFIT
from recipec.rules.failures import best_interval_seconds
from recipec.rules.intervals import saves_in, saving_share, steps_apart, times_in
from recipec.units import counted, duration


@rule(
    "CKPT-001",
    decides="save_every",
    key="train.save_every",
    trains=False,
    watch="eval_loss: of those with a checkpoint, the lowest is loaded at the end",
    source="docs/rule-books/001.md, Step 4; docs/rule-books/002.md, Step 7; Best practices; Anti-patterns; "
    "docs/rule-books/003.md, Quality gates",
)
def save_every(
    eval_every: float,
    total_steps: int,
    training_seconds: float,
    checkpoint_seconds: float,
    gpus: int,
    passes: float,
    updates: int = 1,
    answer_passes: int = 1,
) -> Choice:
    """Checkpoint interval: a checkpoint at every evaluation, or at every n-th where checkpoints take long to write.

    Rule books 002 and 003 want regular checkpoints and the best one kept. Rule book 001 evaluates every 200 steps and
    saves every 500, which contradicts its own load_best_model_at_end: the Trainer refuses to save at anything but a
    multiple of the evaluation interval (BAD-017).

    recipec weighs bytes against risk:

    - Bytes: training waits while a checkpoint is written. Nobody misses a minute in all. Beyond that, all of them
      together take at most 2% of the training time, and a tenth where rows are seen again: the best of the evaluations
      may then be an early one. Where they would take more than 2%, they are 15 minutes apart or more. One at the last
      step saves nothing of a run that fails: up to three may precede it, also 15 minutes apart, in at most 5% together.
    - Risk: they are never fewer than one for each pass over the rows, where there are several: rule book 002 writes one
      in every epoch, and rows that are seen again can be memorized. Where these would take more than half of the
      training time, as many are written as take half, and the reason says what is lost. Nor are they further apart
      than loses least to failures, sqrt(2 x the time of a checkpoint x the time between failures) (Young 1974; Llama 3,
      arXiv 2407.21783, section 3.3.4). The last step writes one too, as the Trainer does.

    Where the last step would be the only one to write a checkpoint, it writes none: behind it only the result is left
    to be written, from weights in memory and in less time. A run that is killed then begins anew, as it does while such
    a checkpoint is written. Nor could more epochs go on from it: another plan's checkpoints are refused.

    The result is then the best of the evaluations that have a checkpoint. transformers 5.23 remembers the best of all
    evaluations, and where that one has no checkpoint, it would load an older one, not the best of those that were
    saved; train.py has it judge only what is saved.

    You can set a multiple of `train.eval_every`. transformers rounds each of two shares up to whole steps: of 330
    steps, 0.05 is every 17 and 0.1 is every 33, and no checkpoint would meet an evaluation. recipec therefore writes
    both intervals in whole steps where they differ.
    """
    evaluations = times_in(eval_every, total_steps, updates * answer_passes)
    room = training_seconds / checkpoint_seconds
    repeated = passes_that_repeat(passes)
    least = max(
        min(repeated, int(MOST_WRITING * room)),
        ceil(training_seconds / best_interval_seconds(checkpoint_seconds, gpus)),
        int(UNNOTICED_SECONDS / checkpoint_seconds),
        1 + _before_the_last(training_seconds, checkpoint_seconds),
    )
    affordable = int((WRITING if repeated else CHEAP) * room)
    if evaluations > CHEAP * room:
        affordable = min(affordable, int(training_seconds / LEAST_APART_SECONDS))
    multiple = ceil(evaluations / min(evaluations, max(affordable, least)))
    share = eval_every if multiple == 1 else saving_share(eval_every, multiple, total_steps, updates * answer_passes)
    times = saves_in(eval_every, share, total_steps, updates * answer_passes)
    if times and multiple == 1:
        return Choice(share, "every evaluation has a checkpoint, so the best one can be loaded")
    often = f"after every {multiple} evaluations, {counted(times, 'time')} in all"
    return Choice(share, _taken(often, times, evaluations, training_seconds, checkpoint_seconds))


def _taken(often: str, times: int, evaluations: int, training_seconds: float, checkpoint_seconds: float) -> str:
    """The part of the training that checkpoints take, and would take with each evaluation."""
    written, every_time = (n * checkpoint_seconds / max(training_seconds, 1e-9) for n in (times, evaluations))
    each = f"writing one takes {duration(checkpoint_seconds)}"
    if not times:
        return f"no checkpoint is written: {each}; one at each evaluation, {every_time:.0%}{_WITHOUT}"
    return f"{often}: {each}, {written:.0%} of the training in all; with each evaluation it would be {every_time:.0%}"


_WITHOUT = (
    " of the training. The last step is the result, even if an earlier evaluation was better, and a stopped run begins "
    "anew. A checkpoint at the last step would protect nothing but the writing of the result"
)


WRITING = 0.1  # of the training time, for all checkpoints where rows are seen again: recipec's choice
CHEAP = 0.02  # of the training time: what takes no more may be written as often as is evaluated; recipec's choice
BEFORE_LAST, MOST_BEFORE_LAST = 0.05, 3  # of the training time, for so many before the last one: recipec's choice
UNNOTICED_SECONDS = 60.0  # for all checkpoints together, however short the training is: recipec's choice
LEAST_APART_SECONDS = 900.0  # what a run loses at most that fails, beside a start: recipec's choice
MOST_WRITING = 0.5  # of the training time, for one after each pass over rows that are seen again: recipec's choice


def _before_the_last(training_seconds: float, checkpoint_seconds: float) -> int:
    """Checkpoints before the last step where few are written: one half way, or more that are not too close."""
    apart = max(1, int(training_seconds / LEAST_APART_SECONDS) - 1)
    return min(int(BEFORE_LAST * training_seconds / checkpoint_seconds), MOST_BEFORE_LAST, apart)


def passes_that_repeat(passes: float) -> int:
    """Whole passes over the rows of a run that sees them twice or more."""
    return int(passes) if passes >= PASSES_THAT_OVERFIT else 0


@rule(
    "CKPT-002",
    decides="keep_checkpoints",
    key="train.keep_checkpoints",
    trains=False,
    watch="eval_loss, epoch: the output folder holds the best and the newest checkpoint",
    source="docs/rule-books/001.md, Step 4; Checkpointing architecture; Storage requirements; docs/rule-books/002.md, "
    "Step 7; Best practices; Anti-patterns",
)
def keep_checkpoints(
    eval_every: float = 1.0,
    save_every: float = 1.0,
    total_steps: int = 1,
    decay_share: float = 0.0,
    updates: int = 1,
    answer_passes: int = 1,
) -> Choice:
    """Number of checkpoints that stay on disk: 3.

    Rule book 001 keeps 3 and plans space for three to five times the size of the model. Rule book 002 keeps the best,
    the latest and one per epoch. The Trainer keeps the best and the newest, so 2 is the least that recipec accepts. The
    third is a spare in case the newest was cut off while it was written.

    The example of rule book 001 deletes the checkpoint with the highest loss, which may be the newest. A stopped run
    then has nothing to continue from.

    A run whose learning rate falls at its end (warmup-stable-decay) can be trained on with more data from the last
    checkpoint before the decay. The checkpoints of the decay replace it, where there are more of them than are kept;
    the reason then says how many would keep it.
    """
    three = "the best, the newest, and a spare in case the newest was cut off while it was written"
    if total_steps > 1 and not saves_in(eval_every, save_every, total_steps, updates * answer_passes):
        return Choice(KEPT, f"no checkpoint is written; where there are several, {three}", accepts=(2, 10))
    steps, taught = (eval_every, save_every, total_steps), updates * answer_passes
    later = _saved_in_decay(*steps, decay_share, taught) if decay_share else 0
    if later + 2 <= KEPT:
        return Choice(KEPT, three, accepts=(2, 10))
    lost = f"{three}; those of the decay replace the last one before it, from which more data could be learned"
    copied = "copy it during the run to keep it"
    kept = copied if later + 2 > 10 else f"`train.keep_checkpoints = {later + 2}` keeps it"
    return Choice(KEPT, f"{lost}: {kept}", accepts=(2, 10))


KEPT = 3  # checkpoints


def _saved_in_decay(eval_every: float, save_every: float, total_steps: int, decay_share: float, taught: int) -> int:
    """How many checkpoints are written while the learning rate falls; 0 where none is written before."""
    each = steps_apart(eval_every, save_every, total_steps, taught)[1]
    before = (total_steps - int(decay_share * total_steps)) // each
    return saves_in(eval_every, save_every, total_steps, taught) - before if before else 0
