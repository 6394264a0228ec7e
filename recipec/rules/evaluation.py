"""What is held out, how often it is looked at, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.rules.failures import best_interval_seconds
from recipec.rules.intervals import saves_in, steps_apart, steps_between, times_in
from recipec.units import counted

WRITTEN = 128  # rows of an evaluation that writes an answer to each: recipec's choice


def most_evaluated(stage: str, params: int) -> int:
    """Rows that an evaluation reads at most (EVAL-003): more would be held out unread."""
    return WRITTEN if method_of(stage).generates else 500 if params > 7e9 else 1_000


@rule(
    "EVAL-001",
    decides="eval_fraction",
    key="data.eval_fraction",
    watch="eval_loss: changes smoothly; if it jumps between evaluations, raise `data.eval_fraction`",
    source="docs/rule-books/001.md, Data splitting & validation; docs/rule-books/002.md, Anti-patterns",
)
def eval_fraction(has_eval_file: bool, source_rows: int, stage: str, params: int, test_fraction: float = 0.0) -> Choice:
    """Evaluation split: 10% of the rows, at most about as many as an evaluation reads.

    Rule book 001 splits 80% for training, 10% for evaluation and 10% for the test. Its second split takes 0.111 of the
    remaining 90%, which is this 10%. Its example has no seed; recipec seeds the split (TRACK-003).

    A file given as `data.eval` replaces the split. An evaluation reads at most 1,000 rows, 500 above 7B parameters, and
    128 where it writes an answer to each (EVAL-003). Of more than ten times as many rows the share is smaller, and the
    others are learned. It is at most half of what `data.test_fraction` leaves, so that training gets as many rows.
    """
    if has_eval_file:
        return Choice(0.0, "`data.eval` is given, so no training row is held out", accepts=(0.0, 0.3))
    share, why = _held_out(source_rows, most_evaluated(stage, params), test_fraction, "test")
    return Choice(share, why, accepts=(min(share, 0.01), 0.3))


@rule(
    "EVAL-002",
    decides="test_fraction",
    key="data.test_fraction",
    watch="eval_loss: the test loss after training is close to the best eval_loss",
    source="docs/rule-books/001.md, Data splitting & validation; Evaluation loop architecture; Rules; "
    "docs/rule-books/003.md, Quality gates",
)
def test_fraction(has_test_file: bool, source_rows: int, stage: str, params: int, eval_fraction: float = 0.0) -> Choice:
    """Test split: rows that neither training nor the choice of the checkpoint uses: 10%, less of many rows (EVAL-001).

    Rule book 001 splits 80%, 10% and 10% and does not say what the third part is for. recipec uses it to measure the
    model before and after training, because the evaluation split chooses the checkpoint and no longer measures it
    fairly.

    A file given as `data.test` replaces the split. A large corpus gives as little as for the evaluation (EVAL-001).
    It is at most half of what `data.eval_fraction` leaves, so that training gets as many rows.
    """
    if has_test_file:
        return Choice(0.0, "`data.test` is given, so no training row is held out", accepts=(0.0, 0.3))
    share, why = _held_out(source_rows, most_evaluated(stage, params), eval_fraction, "eval")
    return Choice(share, why, accepts=(0.0, 0.3))


def _held_out(rows: int, most: int, beside: float, other: str) -> tuple[float, str]:
    """The share of the rows for one of the two parts, in two digits, and why.

    `beside` is the share of the other part where the recipe sets it, `other` the name of that part in its key.
    """
    share = 0.1 if rows <= 10 * most else float(f"{most / rows:.2g}")
    if share > (1 - beside) / 2:
        why = f"half of what `data.{other}_fraction` leaves, so that training gets as many rows as this part"
        return float(f"{(1 - beside) / 2:.2g}"), why
    if rows <= 10 * most:
        return share, "the usual split is 80% for training, 10% for evaluation and 10% for the test"
    return share, f"about {most:,} of {rows:,} rows are enough: an evaluation reads no more"


def training_rows(value: Mapping[str, Any]) -> int:
    """The rows that a stage trains on: those that are left, rounded as prepare_data.py rounds, and replayed ones.

    Where groups, conversations or prompts stay whole, it may hold out some more or fewer; and it refuses to leave none.
    """
    return own_rows(value) + value.get("replay_rows", 0)


def own_rows(value: Mapping[str, Any]) -> int:
    """The rows of the task that a stage trains on: those that are left, as often as their sources weigh."""
    return max(1, round(rows_left(value) * value["examples"] / value["source_rows"]))


def rows_left(value: Mapping[str, Any]) -> int:
    """The rows of the sources that are neither evaluation nor test rows; 0 or fewer where nothing can be trained."""
    left = value["source_rows"] - _drawn(value["source_rows"], value["test_fraction"])
    return left - _drawn(left, value["eval_fraction"] / (1 - value["test_fraction"]))


def training_tokens(value: Mapping[str, Any]) -> int:
    """The mean length of the rows that a stage trains on in tokens, replayed ones included."""
    return value.get("training_tokens", value["tokens_per_example"])


def prepared_rows(value: Mapping[str, Any]) -> int:
    """The rows of all splits, with those that are replayed and without general rows that no stage reads."""
    held_out = value["source_rows"] - rows_left(value) + sum(_rows_of_files(value).values())
    return held_out + training_rows(value) + looked_at_general(value)


def read_rows(value: Mapping[str, Any]) -> int:
    """The rows that prepare_data.py reads: all general ones where a stage reads them, though it learns a share."""
    general = max(_general_rows(value), value.get("replay_rows", 0) + looked_at_general(value))
    return value["source_rows"] + sum(_rows_of_files(value).values()) + general


def rows_apart(value: Mapping[str, Any]) -> int:
    """How many more rows prepare_data.py makes than it reads: answers of conversations, of all files."""
    own = value["source_rows"] - round(value["source_rows"] * value["data_rows"] / value["examples"])
    files = _rows_of_files(value) | {"general": _general_rows(value)}
    return own + sum(rows - value.get(f"{part}_data_rows", rows) for part, rows in files.items() if rows)


def _rows_of_files(value: Mapping[str, Any]) -> dict[str, int]:
    """The rows that data.eval and data.test name, where they are counted."""
    return {part: value[f"{part}_rows"] or 0 for part in ("eval", "test") if value[f"has_{part}_file"]}


def _general_rows(value: Mapping[str, Any]) -> int:
    """All general rows, where a stage reads them."""
    reads = "replay_rows" in value or "ewc_strength" in value
    return (value.get("general_rows") or 0) if reads else 0


def looked_at_general(value: Mapping[str, Any]) -> int:
    """The general rows that evaluate.py reads where a stage replays others of them, at most (REPLAY-002)."""
    if "replay_rows" not in value:
        return 0
    rows = value["general_rows"] or 10 * value["general_held_out"]
    return max(1, min(value["general_held_out"], rows // 10, value["eval_samples"]))


def looked_at(value: Mapping[str, Any], part: str) -> int:
    """The rows of the evaluation or test split ("eval" or "test") that one evaluation reads, at most (EVAL-003)."""
    drawn = _drawn(value["source_rows"], value[f"{part}_fraction"])
    given = value[f"{part}_rows"] if value[f"has_{part}_file"] else drawn
    return value["eval_samples"] if given is None else min(given, value["eval_samples"])


def _drawn(rows: int, share: float) -> int:
    """Whole rows, one at least."""
    return max(1, round(rows * share)) if share else 0


@rule(
    "EVAL-003",
    decides="eval_samples",
    watch="eval_loss, tokens_per_second: evaluations stay a small part of the run",
    source="docs/rule-books/001.md, Evaluation loop architecture",
)
def eval_samples(stage: str, params: int) -> Choice:
    """Rows that one evaluation reads at most: 1,000, and 500 above 7B parameters, whose forward pass is slow.

    A method that answers its prompts itself writes an answer to each row that it reads, so that 128 have to do.

    Rule book 001 evaluates on a fixed subset of 500 to 1,000 samples. recipec takes the first rows of the evaluation
    split, so every evaluation reads equal rows and evaluations can be compared. Every split writes its rows in an order
    drawn with the recipe's seed, a split by group whole groups, so its first rows are a random sample. A file given as
    `data.eval` keeps its order: shuffle a file that is sorted.

    `evaluate.py` reads as many rows of the test split, before and after training.
    """
    count = most_evaluated(stage, params)
    if method_of(stage).generates:
        return Choice(count, "an answer is written to each, which takes long")
    return Choice(
        count,
        "enough to compare evaluations, and "
        + ("few enough for the slow forward pass of more than 7B parameters" if params > 7e9 else "quickly read"),
    )


@rule(
    "EVAL-004",
    decides="eval_every",
    key="train.eval_every",
    watch="eval_loss, train_eval_gap: a turning point is visible; if fewer than 5 evaluations hide it, lower the share",
    source="docs/rule-books/003.md, Anti-patterns; docs/rule-books/001.md, Step 4; Anti-pattern 4; Rules; "
    "docs/rule-books/002.md, Anti-patterns",
)
def eval_every(
    total_steps: int,
    training_seconds: float,
    checkpoint_seconds: float,
    gpus: int,
    evaluation_seconds: float = 0.0,
    updates: int = 1,
    answer_passes: int = 1,
) -> Choice:
    """Evaluation interval, as a share of the run.

    Rule book 003 evaluates every 50 to 100 steps. Rule book 001 evaluates every 200, and less often where evaluation is
    slow. Rule book 002 wants validation during training. recipec takes the smallest of 1%, 2%, 5%, 10% and 20% of the
    steps that is at least 50 steps: 50 to 125 steps in runs of 250 to 10,000. Shorter runs still evaluate five times
    or more, and every step of a run of five or fewer; longer runs evaluate at most a hundred times. The Trainer rounds
    the interval up to whole steps and evaluates after the last step too. Where several steps learn from one generation
    of answers, the bundle rounds it up to whole generations.

    All evaluations together take about 3% of the training time at most, as checkpoints have a share (CKPT-001): where
    one takes long, the next larger share is taken that keeps to it, up to 20%.

    A checkpoint is written with an evaluation, if not with each (CKPT-001). 0.1%, 0.2% and 0.5% are therefore taken too
    where a run is so long, and on so many GPUs, that checkpoints pay more often than every hundredth of it. The
    interval that loses least is sqrt(2 x the time of a checkpoint x the time between failures) (Young 1974). A GPU
    fails once in 50,700 hours: 419 failures in 54 days on 16,384 GPUs (Llama 3, arXiv 2407.21783, section 3.3.4).
    """
    finest = evaluation_seconds / (LOOKING * max(training_seconds, 1e-9))
    share = _interval(total_steps, training_seconds, checkpoint_seconds, gpus, finest, updates * answer_passes)
    steps, accepts = steps_between(share, total_steps, updates * answer_passes), (min(0.01, share), 0.25)
    if steps == 1:
        often = f"each of the {total_steps} steps" if total_steps > 1 else "the only step"
        return Choice(share, f"after {often}", accepts=accepts)
    often = f"every {steps:,} steps, {counted(ceil(total_steps / steps), 'time')} in {counted(total_steps, 'step')}"
    return Choice(share, often, accepts=accepts)


SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
USUAL = 0.01  # the finest share where failures are not weighed
LEAST_EVALUATIONS, LEAST_STEPS = 5, 50


LOOKING = 0.035  # of the training time, for all evaluations: "about 3%", recipec's choice


def _interval(
    total_steps: int, training_seconds: float, checkpoint_seconds: float, gpus: int, affordable: float, taught: int
) -> float:
    """The smallest share that is worth a look and is `affordable`, or else the largest with enough of them."""
    finest = min(USUAL, best_interval_seconds(checkpoint_seconds, gpus) / max(training_seconds, 1e-9))
    apart = [share for share in SHARES if share >= finest and share * total_steps >= LEAST_STEPS]
    apart = [share for share in apart if share >= affordable] or apart[-1:]
    least = min(LEAST_EVALUATIONS, total_steps // taught)
    enough = (share for share in reversed(SHARES) if times_in(share, total_steps, taught) >= least)
    return apart[0] if apart else next(enough)


@rule(
    "EVAL-005",
    decides="best_metric",
    watch="eval_loss: the checkpoint with the lowest value is loaded at the end",
    source="docs/rule-books/001.md, Step 4; docs/rule-books/002.md, Step 7; docs/rule-books/003.md, Quality gates",
)
def best_metric(
    stage: str, eval_every: float, save_every: float, total_steps: int, updates: int = 1, answer_passes: int = 1
) -> Choice:
    """The checkpoint that becomes the result: the one with the lowest eval_loss, or the highest eval_reward.

    Rule books 001, 002 and 003 keep the best checkpoint by validation loss. The first example of rule book 002 keeps
    the best by accuracy, which a language model does not have for free text. The Trainer checks the name of the metric
    only at the first evaluation, so the bundle evaluates once before it trains.

    A method that learns from rewards keeps the checkpoint with the highest `eval_reward`, the mean reward of an answer
    to each held-out prompt: its loss is about 0 from first to last. Where the trainer raises more than the reward,
    evaluations report all of it as `eval_objective`, and that decides: for PPO the reward minus the weighted KL and the
    penalty of answers that do not end, because the highest reward alone may be that of an over-optimized checkpoint.
    """
    method = method_of(stage)
    if not saves_in(eval_every, save_every, total_steps, updates * answer_passes):
        return Choice(
            method.judged_by, "what evaluations report; no checkpoint is written: the last step is the result"
        )
    return Choice(method.judged_by, f"the checkpoint with {method.best} becomes the result, not the last one")


PASSES_THAT_OVERFIT = 2.0  # over the training rows: recipec's choice
STALE_SHARE = 0.2  # of the run without a better evaluation before it is stopped: recipec's choice


@rule(
    "EVAL-006",
    decides="early_stopping_patience",
    key="train.early_stopping_patience",
    watch="eval_loss, train_eval_gap: a gap above 0.2 shows overfitting",
    source="docs/rule-books/001.md, Anti-pattern 1; docs/rule-books/002.md, Best practices",
)
def early_stopping_patience(
    stage: str,
    passes: float,
    eval_every: float,
    save_every: float,
    total_steps: int,
    updates: int = 1,
    answer_passes: int = 1,
) -> Choice:
    """Early stopping: evaluations without a better one after which training stops; only in runs of two passes or more.

    It is 3, or as many as cover a fifth of the run. Of 50 evaluations, three are 6% of the steps, and an eval_loss that
    still falls can stay level for as long by chance alone. What is seen once cannot be memorized, so that no run stops
    in its first pass, nor before it has a checkpoint, of which the best is loaded at the end. Where no step before
    the last writes a checkpoint (CKPT-001), there is nothing to go back to, and the run is not stopped early. A loss
    that stays level in a single pass waits for the learning rate to fall, and stopping there would lose the part of the
    schedule that lowers it.

    Rule book 001 stops early against overfitting, which it sees in a gap above 20% for three evaluations or more. Rule
    book 002 monitors overfitting with validation metrics. The gap of rule book 001 is training loss minus evaluation
    loss, which is negative during overfitting. `train_eval_gap` is (evaluation loss - training loss) / training loss,
    and 0.2 is its limit. It is not logged where the training loss is 0 or below, which hinge and robust DPO reach.
    Where rewards judge, it is the last reward of training minus `eval_reward`, both of answers that are sampled alike.
    """
    method = method_of(stage)
    each, saved = steps_apart(eval_every, save_every, total_steps, updates * answer_passes)
    if saved >= total_steps:
        return Choice(0, "no checkpoint is written, so there is no earlier one to load", accepts=(0, 0))
    if passes < PASSES_THAT_OVERFIT:
        return Choice(0, "rows that are seen less than twice are not memorized, and the schedule runs to its end")
    patience = max(3, round(STALE_SHARE * total_steps / each))
    if patience * each >= total_steps:
        return Choice(
            patience, f"{patience} evaluations without {method.better} are as long as the run, which ends first"
        )
    shown = f"{patience * each / total_steps:.0%} of the run"
    return Choice(patience, f"{shown} without {method.better} shows overfitting")


@rule(
    "EVAL-007",
    decides="eval_batch_size",
    trains=False,
    watch="eval_loss: the same with every size of the batch",
    source="memory and time estimates of the planner; transformers 5.23 trainer.py",
)
def eval_batch_size(rows: int, micro_batch: int) -> Choice:
    """Rows that a GPU evaluates at once during training: the micro batch, or more where it is small.

    An evaluation keeps no activations for a backward pass, so its memory allows more rows than training has. recipec
    doubles the micro batch as long as the rows fit at their full length and are scored faster so, up to about 4,096
    tokens at once, with which a GPU is busy. The rule books do not speak of it.
    """
    if rows == micro_batch:
        return Choice(rows, "as many as in training: more do not fit or are not faster")
    return Choice(rows, f"without activations to keep, more than the {counted(micro_batch, 'row')} of training fit")
