"""What keeps a model good at what it could do before."""

from __future__ import annotations

from recipec.rules.core import Choice, rule

_EWC = "Overcoming catastrophic forgetting in neural networks (arXiv 1612.00796, 2016), equation 3"
_TOLD = (
    "ewc_penalty: 0 at step 1, then a small part of loss. Near 0 throughout → raise `train.ewc.strength`; larger than "
    "the rest of loss → lower it"
)
FISHER_ROWS = 512  # our decision: with too few the rare tokens are missing, and each costs a forward and backward pass

DEFAULT_REPLAY = 0.2  # the middle of 10% to 30%: docs/rule-books/001.md, Rules
HELD_OUT_ROWS = 500  # the fewest of 500 to 1,000: docs/rule-books/001.md, Evaluation loop architecture


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

    Replay is simpler and needs no memory: `data.replay` trains on a share of general rows (REPLAY-001), with or without
    this penalty. An adapter of low rank changes fewer weights from the start.
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
    taken where there are fewer. With `data.replay` they are drawn from the general rows that training does not learn
    (REPLAY-002).
    """
    return Choice(FISHER_ROWS, "each general row takes one forward and one backward pass before step 1", (64, 100_000))


@rule(
    "REPLAY-001",
    decides="replay",
    key="data.replay",
    watch="eval_loss: falls as it would without replay. `general_eval_loss` of evaluate.py stays near its value before "
    "training; if it rises → raise `data.replay` or lower `train.learning_rate`",
    source="docs/rule-books/001.md, Rules; Anti-pattern 6",
)
def replay() -> Choice:
    """Which share of the training tokens is of general rows, so that the model does not forget what it could do.

    | `data.general` | `train.ewc` | `data.replay` | training learns |
    |---|---|---|---|
    | not set | - | - | your rows alone |
    | set | not set | not set | 20% general tokens |
    | set | set | not set | your rows alone, with the weights held that matter for general rows |
    | set | any | set | as large a share of general tokens as `data.replay` says |

    10% to 30% of general data are usual; recipec takes the middle and warns outside. The share is one of
    tokens, not of rows: the loss is a mean over the tokens of a step, so a share of short rows would count for less
    than it says. Tokens are those of whole sequences, as prepare_data.py counts them for `max_length`, after rows that
    are too long are dropped or cut, and after weights of sources. Your rows stay as many as they are, so a share of 0.2
    makes training longer by a quarter.

    prepare_data.py draws general rows at random with `recipe.seed`, none of them twice, and puts them at random places
    among your rows; a curriculum orders your rows alone. Every epoch sees these same rows. It stops where general rows
    have too few tokens for the share, and names the share that they suffice for, because repeated rows would be learned
    by heart. It also stops where the share comes out differently by more than 0.02, which happens where few rows are
    very long. The report has the shares of rows and of tokens.

    General rows never enter the evaluation or the test split, and rows that ask what these splits ask are left out.
    """
    return Choice(
        DEFAULT_REPLAY,
        "usual are 10% to 30% general data against forgetting, and this is the middle",
        accepts=(0.1, 0.3),
        below="with fewer general tokens the model forgets more",
        above="more general tokens take longer and leave your rows less weight",
    )


@rule(
    "REPLAY-002",
    decides="general_held_out",
    watch="eval_loss: falls. `general_eval_loss` of evaluate.py should not rise from before training to after it",
    source="docs/rule-books/001.md, Anti-pattern 6; Evaluation loop architecture",
)
def general_held_out(ewc_rows: int) -> Choice:
    """How many general rows are not replayed, so that evaluate.py measures on them what was forgotten.

    500 rows, and no more than a tenth of the general rows, but at least one. Rows that ask the same stay together. With
    `train.ewc` at least as many as `train.ewc.rows` says, up to the same tenth: the Fisher information is estimated on
    them.

    evaluate.py reports their loss as `general_eval_loss` beside that of your test rows, before and after training. No
    decision of the training sees them, so the difference is what was forgotten.
    """
    rows = max(HELD_OUT_ROWS, ewc_rows)
    return Choice(rows, "the loss on these rows, before and after training, tells how much the model has forgotten")
