"""What makes a run another run: what a recipe can set, and training depends on."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.planner.document import trains
from recipec.planner.untrained import OF_LAYOUTS
from recipec.rules.core import Decision

FIELDS_OF_THEIR_OWN = ("model", "hardware")  # of an entry: what these sections decide
FOLLOWING = ("adam_beta2", "decay_share", "loss_on", "eos_token")  # from what a recipe sets, without a key of their own
NAMED = ("alignment_method",)  # the stage has its name


def hyperparameters(stage: StageJob) -> list[str]:
    """The ids of the decisions; of the epochs and a number of steps, the one that says how long the stage trains."""
    unused = "epochs" if stage.value("max_steps") > 0 else "max_steps"
    passed_over = (unused, *NAMED)
    return [id for id, decision in stage.plan.decisions.items() if _counts(decision) and id not in passed_over]


def _counts(decision: Decision) -> bool:
    if decision.id in OF_LAYOUTS:
        return decision.value is True or decision.value > 1
    if decision.id in FOLLOWING:
        return True
    settable = decision.key or decision.origin == "recipe"
    return settable and decision.key.partition(".")[0] not in FIELDS_OF_THEIR_OWN and trains(decision)
