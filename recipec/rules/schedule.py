"""How long to train and how the learning rate moves meanwhile."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of


@rule(
    "SCHED-001",
    decides="schedule",
    key="train.schedule",
    watch="learning_rate: rises over the warmup, then follows the schedule down to 0",
    source="rule book 001, Key Hyperparameter Rules (LR scheduler); 003, Learning rate & schedule; 000, LR Schedule",
)
def schedule() -> Choice:
    """Decides the shape of the learning rate: warmup, then a cosine to zero.

    001 and 003 say cosine in every row; 000 allows cosine or linear. 001 offers warmup-stable-decay for pretraining
    from scratch. It is one key away (`train.schedule = "warmup-stable-decay"`) and pays where the end of the run is
    not known: its checkpoints can be trained on. A pass over a known amount of text has an end to decay to.
    """
    return Choice("cosine", "the usual shape of fine-tuning: it falls slowly at first, and to zero at the end")


@rule(
    "SCHED-002",
    decides="warmup",
    key="train.warmup",
    defaults="warmup",
    watch="grad_norm, learning_rate: no spike while the rate rises; spikes ask for a longer warmup",
    source="rule book 001, Key Hyperparameter Rules (Warmup ratio), Step 4; 003, Learning rate & schedule",
)
def warmup(stage: str, examples: int) -> Choice:
    """Decides the share of the steps over which the learning rate rises.

    001 and 003 both start at 0.03; it is emitted as a share, so that more data mean more warmup steps. DPO has 0.05 to
    0.15 in 001 and takes 0.1. Under 1K examples a run has a few dozen steps and the higher rate of OPT-001: 0.1, the
    end of 001's range, is then still only a handful of steps. Continued pretraining: 0.03 within 0.01 to 0.05.
    Pretraining: 0.01, the low end, as Pythia (arXiv 2304.01373, 2023); LLaMA took 2,000 steps, under 0.01 of its own.
    """
    return choose(method_of(stage).warmup, "", examples, 0)


@rule(
    "SCHED-003",
    decides="epochs",
    key="train.epochs",
    defaults="epochs",
    watch="eval_loss, train_eval_gap: stop where eval_loss turns up; the best checkpoint is kept, not the last",
    source="rule book 001, Data size for instruction tuning?, Key Hyperparameter Rules (Epochs); 003, Anti-Patterns",
)
def epochs(stage: str, adaptation: str, examples: int) -> Choice:
    """Decides the number of passes over the data.

    The books contradict each other: 001's table says 3-10 for LoRA and 2-5 for full; its data-size tree 5-10 under 1K,
    3-5 up to 10K, 2-3 up to 100K, 1-2 above; 003 says 1-3 and calls ten and more guaranteed overfitting. We take the
    data-size tree, the most specific, at its lower end, where it meets 003: 5 / 3 / 2 / 1, and full fine-tuning 3
    under 1K, because all weights can memorise a small set. Five passes exceed 003 on purpose, with evaluation, the
    best checkpoint and early stopping as its safeguards. Ten are never accepted silently.
    DPO: 001 gives 1-3 and preferences overfit soonest, so 3 / 2 / 1 by size. Both kinds of pretraining: 1 of 1-3.
    """
    return choose(method_of(stage).epochs, adaptation, examples, 0)


DECAY_SHARE = 0.1  # of the steps: MiniCPM (arXiv 2404.06395, 2024)


@rule(
    "SCHED-004",
    decides="decay_share",
    watch="learning_rate, loss: the rate stays flat, then falls over this share of the run, and the loss with it",
    source="rule book 001, Key Hyperparameter Rules (warmup-stable-decay); MiniCPM (arXiv 2404.06395, 2024)",
)
def decay_share() -> Choice:
    """Decides the share of the steps over which warmup-stable-decay falls: the last tenth.

    001 names the schedule and no length. MiniCPM, which introduced it, found that about 10 % of the tokens suffice for
    the decay. The pinned stack counts the decay in steps and not as a share, so train.py computes them.
    """
    return Choice(DECAY_SHARE, "MiniCPM found that this share of the tokens suffices for the decay")
