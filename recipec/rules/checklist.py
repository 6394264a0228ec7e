"""The completion checklist of the rule books, met or not met by a bundle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

_LOSS = "eval_loss"  # what a checkpoint is judged by, where rewards do not


class Item(Struct, frozen=True):
    """One line of a rule book's checklist, and the fact about a bundle that meets it."""

    text: str
    source: str
    fact: str  # name in the facts given to `completion`
    met: str  # how the bundle meets it; {batch}: what the smallest global batch holds, {best}: what rewards judge by
    unmet: str  # what is missing, and who can do it
    after: bool = False  # only the run itself can tell
    by_run: bool = False  # the bundle does it when it runs: its box is left empty until then


class Checked(Struct, frozen=True):
    """An item with its verdict."""

    text: str
    met: bool
    how: str
    source: str
    after: bool


def completion(facts: Mapping[str, bool], judged_by: Collection[str] = (_LOSS,), batch: str = "") -> list[Checked]:
    """Judge every item; a fact that is not given counts as not met, so nothing is ticked by accident.

    An item about evaluations is there once for each metric that they are `judged_by`.
    """
    best = " and ".join(sorted({*judged_by} - {_LOSS}))
    judged = ((item, facts.get(item.fact, False)) for item in _items(judged_by))
    return [
        Checked(
            item.text,
            met and not item.by_run,
            (item.met if met else item.unmet).format(batch=batch, best=best),
            item.source,
            item.after,
        )
        for item, met in judged
    ]


def _items(judged_by: Collection[str]) -> Iterator[Item]:
    """The list, in the words of what judges the evaluations."""
    for item in CHECKLIST:
        if _LOSS in judged_by or item.fact not in OF_REWARDS:
            yield item
        if {*judged_by} - {_LOSS} and item.fact in OF_REWARDS:
            yield OF_REWARDS[item.fact]


_CRITERIA = "docs/rule-books/001.md, Completion criteria"
_GATES = "docs/rule-books/003.md, Quality gates"

CHECKLIST = (
    Item(
        "Training approach selected with justification",
        _CRITERIA,
        "adaptation_justified",
        "the plan gives the reason and the alternatives",
        "the plan has no reason for its adaptation",
    ),
    Item(
        "Training data prepared with the right chat template and format",
        _CRITERIA,
        "data_prepared",
        "prepare_data.py formats the rows; preflight.py shows decoded samples and counts what they teach before step 1",
        "the bundle does not prepare the data; check the chat template by hand",
        by_run=True,
    ),
    Item(
        "Training configuration documented with every hyperparameter and its rationale",
        _CRITERIA,
        "decisions_documented",
        "README.md lists the decisions with reason and what to watch; .recipec/plan.json has all of them with sources",
        "README.md does not list the decisions",
    ),
    Item(
        "Distributed setup configured for the available hardware",
        _CRITERIA,
        "launch_configured",
        "launch/ starts the planned processes, with what configs/ holds where the strategy needs a file",
        "the recipe switches the launch script off; start the ranks with a launcher of your own",
    ),
    Item(
        "Evaluation before, during and after training",
        _CRITERIA,
        "baseline_evaluation",
        "evaluate.py measures the model before and after training on the same rows; train.py evaluates during training",
        "the bundle does not measure the baseline; measure the model before training",
        by_run=True,
    ),
    Item(
        "Checks for overfitting, underfitting, data leakage and compute waste in place",
        _CRITERIA,
        "anti_patterns_checked",
        "prepare_data.py removes leaked rows; train_eval_gap, loss and tokens_per_second are logged for you to read",
        "the bundle does not check all four",
        by_run=True,
    ),
    Item(
        "Experiment tracking configured",
        _CRITERIA,
        "tracking",
        "metrics go to the tracker of the plan",
        'the recipe sets `track.to = "none"`, so metrics are only printed',
    ),
    Item(
        "Training cost estimated",
        _CRITERIA,
        "cost_estimated",
        "the plan states hours and cost, with the price that it assumes",
        "the price of an hour is unknown; set `budget.price_per_gpu_hour`",
    ),
    Item(
        "Model registry entry drafted",
        _CRITERIA,
        "registry_entry",
        "registry/entry.json is a draft",
        "the bundle has no draft; enter the model by hand from .recipec/plan.json",
    ),
    Item(
        "Validation loss decreases steadily",
        _GATES,
        "run_loss_halves",
        "eval_loss fell over the run",
        "known after the run; read eval_loss",
        after=True,
    ),
    Item(
        "GPU utilization above 85%",
        _GATES,
        "run_gpu_busy",
        "the GPU was busy for more than 85% of the run",
        "known during the run; read nvidia-smi or rocm-smi",
        after=True,
    ),
    Item(
        "Deduplication run",
        _GATES,
        "deduplicated",
        "prepare_data.py removes identical rows and counts them",
        "the bundle does not deduplicate",
        by_run=True,
    ),
    Item(
        "50 or more samples checked by eye",
        _GATES,
        "samples_checked",
        "somebody read the samples",
        "left to you; read 50 rows of the prepared data",
    ),
    Item(
        "Global batch of 32 or more",
        _GATES,
        "batch_at_least_32",
        "the global batch has {batch}",
        "the global batch has {batch}, which is fewer",
    ),
    Item(
        "Compared with the baseline on the same evaluation data",
        _GATES,
        "run_beats_baseline",
        "evaluate.py found the result better than the start",
        "known after the run; evaluate.py compares both",
        after=True,
    ),
    Item(
        "Best checkpoint by validation loss kept, not the last",
        _GATES,
        "best_checkpoint",
        "of the evaluations that have a checkpoint, the one with the lowest eval_loss is loaded at the end",
        "no checkpoint is written, so the last step is the result; lower `train.save_every`",
        by_run=True,
    ),
)

OF_REWARDS = {  # fact -> the item where rewards judge the evaluations
    item.fact: item
    for item in (
        Item(
            "Checks for overfitting, underfitting, data leakage and compute waste in place",
            _CRITERIA,
            "anti_patterns_checked",
            "prepare_data.py removes leaked prompts; train_eval_gap, reward and tokens_per_second are logged",
            "the bundle does not check all four",
            by_run=True,
        ),
        Item(
            "Validation reward increases steadily",
            _GATES,
            "run_loss_halves",
            "{best} rose over the run",
            "known after the run; read {best}",
            after=True,
        ),
        Item(
            "Best checkpoint by validation reward kept, not the last",
            _GATES,
            "best_checkpoint",
            "of the evaluations that have a checkpoint, the one with the highest {best} is loaded at the end",
            "no checkpoint is written, so the last step is the result; lower `train.save_every`",
            by_run=True,
        ),
    )
}
