"""The completion checklist of the rule books, met or not met by a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a rule book's checklist, and the fact about a bundle that meets it."""

    text: str
    source: str
    fact: str  # name in the facts given to `completion`
    met: str  # how the bundle meets it
    unmet: str  # what is missing, and who can do it
    after: bool = False  # only the run itself can tell


@dataclass(frozen=True, slots=True)
class Checked:
    """An item with its verdict."""

    text: str
    met: bool
    how: str
    source: str
    after: bool


def completion(facts: Mapping[str, bool]) -> list[Checked]:
    """Judge every item; a fact that is not given counts as not met, so nothing is ticked by accident."""
    judged = ((item, facts.get(item.fact, False)) for item in CHECKLIST)
    return [Checked(item.text, met, item.met if met else item.unmet, item.source, item.after) for item, met in judged]


_CRITERIA = "rule book 001, Completion Criteria"
_GATES = "rule book 003, Quality Gates"

CHECKLIST = (
    Item(
        "Training approach selected with justification",
        _CRITERIA,
        "adaptation_justified",
        "the plan names the rule and the rejected alternatives",
        "the plan has no reason for its adaptation",
    ),
    Item(
        "Training data prepared with the correct chat template and formatting",
        _CRITERIA,
        "data_prepared",
        "prepare_data.py formats the rows and train.py checks trained tokens and the stop token before step 1",
        "the bundle does not prepare the data: check the template by hand",
    ),
    Item(
        "Training configuration documented with every hyperparameter and its rationale",
        _CRITERIA,
        "decisions_documented",
        "README.md lists each decision with its reason, source and what to watch",
        "README.md does not list the decisions",
    ),
    Item(
        "Distributed setup configured for the available hardware",
        _CRITERIA,
        "launch_configured",
        "launch/ and configs/ hold what the strategy uses",
        "no launch script was asked for: the team's own launcher must start the ranks",
    ),
    Item(
        "Evaluation covers baseline, in-training and post-training metrics",
        _CRITERIA,
        "baseline_evaluation",
        "evaluate.py measures the model before and after training on the same rows; train.py evaluates on the way",
        "the baseline is not measured by this bundle: measure the model before training",
    ),
    Item(
        "Anti-pattern checks applied: overfitting, underfitting, data leakage, compute waste",
        _CRITERIA,
        "anti_patterns_checked",
        "preparation removes leaks; train_eval_gap, loss and tokens_per_second are logged",
        "not all four are watched by this bundle",
    ),
    Item(
        "Experiment tracking configured",
        _CRITERIA,
        "tracking",
        "metrics go to the tracker that the plan names",
        'track.to = "none": metrics are only printed',
    ),
    Item(
        "Training cost estimated",
        _CRITERIA,
        "cost_estimated",
        "the plan states hours and cost with the price it assumed",
        "the price of the GPU is unknown: give budget.price_per_gpu_hour",
    ),
    Item(
        "Model registry entry drafted",
        _CRITERIA,
        "registry_entry",
        "registry/entry.json is drafted",
        "not in this version: enter the model by hand, from plan.json",
    ),
    Item(
        "Validation loss decreases steadily",
        _GATES,
        "run_loss_falls",
        "eval_loss fell over the run",
        "known only after the run: read eval_loss",
        after=True,
    ),
    Item(
        "GPU utilisation above 85 %",
        _GATES,
        "run_gpu_busy",
        "the GPU was busy for more than 85 % of the run",
        "known only during the run: look at nvidia-smi or rocm-smi (001 asks for 80 %; the stricter figure is used)",
        after=True,
    ),
    Item(
        "Deduplication run",
        _GATES,
        "deduplicated",
        "prepare_data.py removes identical rows and counts them",
        "the bundle does not deduplicate",
    ),
    Item(
        "50 or more samples checked by eye",
        _GATES,
        "samples_checked",
        "a person signed the samples off",
        "only a person can do this: read 50 rows of the prepared data",
    ),
    Item(
        "Effective batch size of 32 or more",
        _GATES,
        "batch_at_least_32",
        "the global batch is 32 or more",
        "the recipe asks for a global batch under 32",
    ),
    Item(
        "Compared to the baseline on the same evaluation data",
        _GATES,
        "run_beats_baseline",
        "evaluate.py found the result better than the start",
        "known only after the run: evaluate.py compares both",
        after=True,
    ),
    Item(
        "Best checkpoint kept by validation loss, not the last",
        _GATES,
        "best_checkpoint",
        "load_best_model_at_end on eval_loss, with a checkpoint at every evaluation",
        "the recipe has no evaluation data, so the last checkpoint is the result",
    ),
)
