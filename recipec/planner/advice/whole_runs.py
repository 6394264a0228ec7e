"""The whole run of a plan beside those of changed recipes: time and money of both in one clause."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from msgspec import Struct

from recipec.estimate.cost import Cost
from recipec.layout import Layout, Machines
from recipec.planner.advice.change import other_batch
from recipec.planner.search.candidates import Candidate, seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.planner.search.sequences import training_sequences
from recipec.rules.core import Wish
from recipec.rules.words import run_of
from recipec.units import duration, usd

WORTH_NAMING = 0.95  # of the time or the cost: less is within what the estimates can tell; our decision
STATED = 0.8  # of what a run with a stated value takes, which is then 25 % more: a user may want it; our decision


class ChangedRun(Cost, frozen=True):
    """The whole run of a changed stage, or of all stages, beside what it takes now."""

    over: str  # ", still over the budget", which all stages share; "" where it keeps to it
    now: Cost
    told: str  # "the whole run", or the stage, where it is one of several

    @property
    def beside(self) -> str:
        """Time and money beside those of the plan."""
        return f"{instead(self, self.now, self.told)}{self.over}"


class WholeRuns(Struct, frozen=True):
    """The whole run of the plan of a stage, and what it takes with a change."""

    now: Cost
    of: Callable[..., ChangedRun]  # of a changed stage and its plan, and of the recipe where that is changed
    of_all: Callable[..., ChangedRun]  # the same of all stages, for a change of the hardware on which they run


def run_told(context: Context) -> str:
    """What the whole run of a stage is called, beside others."""
    stages = next(decision.value for decision in context.goals if decision.id == "stages")
    return run_of(context.stage.label, context.stage.name, stages)


def instead(run: Cost, now: Cost, told: str = "the whole run") -> str:
    """Time and money of a whole run beside those of the plan: idle GPUs are paid for, too."""
    money = f" and {_beside(usd(run.usd), usd(now.usd))}" if run.usd is not None else ""
    return f"{told} takes {_beside(duration(run.seconds), duration(now.seconds))}{money}"


def _beside(then: str, before: str) -> str:
    return f"{then} as before" if then == before else f"{then} instead of {before}"


def pays(run: Cost, now: Cost, share: float) -> bool:
    """Whether a run takes no more than a share of the time or of the cost, as one on fewer nodes may be cheaper."""
    cheaper = run.usd is not None and now.usd is not None and run.usd <= share * now.usd
    return cheaper or run.seconds <= share * now.seconds


def pass_seconds(found: Fit) -> float:
    """Training seconds of one pass over the rows, the last step included; packed rows are fewer sequences."""
    assert found.chosen is not None and found.ledger is not None
    value, batch = {id: each.value for id, each in found.ledger.decisions.items()}, found.chosen.layout.global_batch
    return ceil(training_sequences(value) / batch) * batch * seconds_per_sequence(found.chosen)


def trains_alike(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same, can be built, and keeps nothing in host memory that the plan does not."""
    layout, now = other.layout, chosen.layout
    hosted = (layout.offload, layout.activation_offload) == (now.offload, now.activation_offload)
    return other.fits and layout.adapts is now.adapts and layout.can_be_built and (layout.on_device or hosted)


def smaller(machines: Machines, measured: bool) -> list[Machines]:
    """Fewer whole nodes, and parts of one, which have other rates than a node that was measured; fewest first."""
    each = machines.gpus_per_node
    nodes = [Machines(count, each) for count in range(1, machines.nodes)]
    return [*nodes, *(Machines(1, count) for count in range(1, 1 if measured else each))]


def measures(then: Layout, now: Layout) -> str:
    """The optimizer, and that data waits in host memory, where that is otherwise for the same training: "with
    adamw-8bit"."""
    told = [then.optimizer] * (then.optimizer != now.optimizer)
    told += ["data in host memory"] * (now.on_device and not then.on_device)
    return f"with {' and '.join(told)}" if told else ""


def takes(then: Layout, now: Layout) -> str:
    """The same, and the global batch."""
    return ", ".join(filter(None, (measures(then, now), other_batch(now, then))))


def same_adaptation(context: Context, found: Fit) -> dict[str, Wish]:
    """What the recipe fixes, and the adaptation of its plan."""
    assert found.chosen is not None
    row = found.chosen.layout.adapts
    base = {} if row.trains_all else {"train.quantization": Wish(row.base, "the same adaptation")}
    return {**base, "train.adaptation": Wish(row.family, "the same adaptation"), **context.wishes}
