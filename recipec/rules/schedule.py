"""How long to train and how the learning rate moves meanwhile."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of


@rule(
    "SCHED-001",
    decides="schedule",
    key="train.schedule",
    watch="learning_rate: rises during the warmup, then follows the schedule down to 0",
    source="docs/rule-books/001.md, Key hyperparameters; Step 4; docs/rule-books/003.md, Learning rate & schedule; "
    "docs/rule-books/000.md, LR schedule; docs/rule-books/002.md, Step 2 (against: WarmupLR)",
)
def schedule() -> Choice:
    """Schedule of the learning rate: warmup, then a cosine down to zero.

    Rule books 001 and 003 say cosine for every method; rule book 000 allows cosine or linear. `WarmupLR` of rule book
    002 stays constant after the warmup and never decays.

    Rule book 001 also offers warmup-stable-decay for pretraining. Set `train.schedule = "warmup-stable-decay"` where
    the end of the run is not known, because its checkpoints can be trained on. A pass over a known amount of text has
    an end to decay to.
    """
    return Choice("cosine", "the usual schedule where the length of the run is known; it falls to zero at the end")


@rule(
    "SCHED-002",
    decides="warmup",
    key="train.warmup",
    defaults="warmup",
    watch="grad_norm, learning_rate: no spikes while the rate rises; if there are, raise `train.warmup`",
    source="docs/rule-books/001.md, Key hyperparameters; Step 4; Anti-pattern 5; docs/rule-books/003.md, Learning "
    "rate & schedule; docs/rule-books/000.md, LR schedule; docs/rule-books/002.md, Step 2 (against: 1,000 steps); "
    "Pythia (arXiv 2304.01373, 2023); LLaMA (arXiv 2302.13971, 2023)",
)
def warmup(stage: str, examples: int) -> Choice:
    """Warmup: share of the steps over which the learning rate rises.

    Rule books 001 and 003 start with 3%. recipec emits a share, so that more data give more warmup steps; the 1,000
    steps of rule book 002 are longer than many runs. DPO has 5% to 15% in rule book 001 and takes 10%.

    Under 1,000 rows a run has a few dozen steps and a higher learning rate (OPT-001). 10%, the upper end of rule book
    001, is then still only a handful of steps.

    Pretraining has 1% to 5% in rule book 001. It takes 1%, as Pythia; LLaMA took 2,000 steps, less than 1% of its run.
    Rule book 001 has no column for continued pretraining, which takes 3% of the range for pretraining.
    """
    return choose(method_of(stage).warmup, "", examples, 0)


@rule(
    "SCHED-003",
    decides="epochs",
    key="train.epochs",
    defaults="epochs",
    watch="eval_loss, train_eval_gap: eval_loss falls to the end; if it rises before the last epoch, lower "
    "`train.epochs`",
    source="docs/rule-books/001.md, Decision tree: data size for instruction tuning; Key hyperparameters; "
    "Anti-patterns 1 and 2; docs/rule-books/003.md, Anti-patterns; docs/rule-books/002.md, Step 1 (against: 10 epochs)",
)
def epochs(stage: str, adaptation: str, examples: int) -> Choice:
    """Epochs: passes over the training rows.

    The rule books contradict each other:

    | | under 1K | 1K to 10K | 10K to 100K | over 100K |
    |---|---|---|---|---|
    | rule book 001, by data size | 5 to 10 | 3 to 5 | 2 to 3 | 1 to 2 |
    | rule book 001, table | LoRA 3 to 10, full 2 to 5 | the same | the same | the same |
    | rule book 003 | 1 to 3 | 1 to 3 | 1 to 3 | 1 to 3 |
    | recipec, LoRA | 5 | 3 | 2 | 1 |
    | recipec, full fine-tuning | 3 | 3 | 2 | 1 |

    recipec takes the most specific of them, the data sizes, at the low end, where it meets rule book 003. Full
    fine-tuning takes 3 under 1,000 rows, because it memorizes a small set sooner. Five passes exceed rule book 003,
    with evaluation, the best checkpoint and early stopping as safeguards. Rule book 003 calls ten and more passes
    certain overfitting, so ten are always reported.

    Rows count as they stand in the data: a conversation is one, also where each of its answers becomes a row.

    DPO has 1 to 3 in rule book 001 and takes 3, 2 or 1 by data size. Both kinds of pretraining take 1 of 1 to 3.
    """
    return choose(method_of(stage).epochs, adaptation, examples, 0)


DECAY_SHARE = 0.1  # of the steps: MiniCPM (arXiv 2404.06395, 2024)


@rule(
    "SCHED-004",
    decides="decay_share",
    watch="learning_rate, loss: the rate stays flat and falls over this share at the end, and the loss falls with it",
    source="docs/rule-books/001.md, Key hyperparameters (warmup-stable-decay); MiniCPM (arXiv 2404.06395, 2024)",
)
def decay_share() -> Choice:
    """Decay of the warmup-stable-decay schedule: the last 10% of the steps.

    Rule book 001 names the schedule and no length. MiniCPM, which introduced it, found that about 10% of the tokens are
    enough for the decay. The pinned versions count the decay in steps and not as a share, so `train.py` computes them.
    """
    return Choice(DECAY_SHARE, "MiniCPM found that this share of the tokens is enough for the decay")
