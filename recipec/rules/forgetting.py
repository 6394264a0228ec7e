"""What keeps a model good at what it could do before."""

from __future__ import annotations

from recipec.rules.core import Choice, rule

_EWC = "Overcoming catastrophic forgetting in neural networks (arXiv 1612.00796, 2016), equation 3"
_TOLD = (
    "ewc_penalty: 0 at step 1, then a small part of loss. Near 0 throughout → raise `train.ewc.strength`; larger than "
    "the rest of loss → lower it"
)
FISHER_ROWS = 512  # our decision: with too few the rare tokens are missing, and each costs a forward and backward pass


@rule(
    "EWC-001",
    decides="ewc_strength",
    key="train.ewc.strength",
    watch=_TOLD,
    source=f"{_EWC}; docs/rule-books/001.md, Anti-pattern 6",
)
def ewc_strength() -> Choice:
    """How strongly weights that matter for general rows are held near their start: only a recipe can say it.

    The loss gets a penalty, strength / 2 * sum of F * (weight - start)^2 over all weights. F is the diagonal of the
    Fisher information of `data.general`: the squared gradient of a row's log-likelihood, summed over the rows and
    divided by their trained tokens. As the loss is a mean per token too, a strength of 1 is Laplace's approximation of
    training on as many general tokens as the training rows have, and a strength of 10 of ten times as many. The paper
    searches the value for each problem, so only a recipe can give it.

    The penalty is a part of `loss` and is logged as `ewc_penalty`. It needs the Fisher information and the starting
    weights in memory, each in the type of the trained weights (fp32: 8 bytes per parameter together), so it is meant
    for small models. Both are in `outputs/STAGE/ewc/`, and a resumed run reads them from there. Once per step they are
    read with the weights and gradients, which the plan does not count in its time.

    Replay is simpler and needs no memory: a general source in `data.train` with a `weight`. An adapter of low rank
    changes fewer weights from the start.
    """
    return Choice("", "only a recipe can say how much general rows count")


@rule(
    "EWC-002",
    decides="ewc_rows",
    key="train.ewc.rows",
    watch=_TOLD,
    source=f"{_EWC}; docs/rule-books/001.md, Anti-pattern 6",
)
def ewc_rows() -> Choice:
    """How many general rows the Fisher information is estimated from.

    They are drawn at random from `data.general` and pass through the model one at a time, because the square of a sum
    of gradients is not the sum of their squares. Each costs a forward and a backward pass before step 1. All rows are
    taken where there are fewer.
    """
    return Choice(FISHER_ROWS, "each general row takes one forward and one backward pass before step 1", (64, 100_000))
