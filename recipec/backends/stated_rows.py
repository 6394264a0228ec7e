"""What prepare_data.py says where a stage has other numbers of rows than the recipe states, or than was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipec.backends.job import StageJob
from recipec.facts.stated_rows import MOST_OFF
from recipec.render.call import Arg


def states_rows(stages: Sequence[StageJob]) -> bool:
    """Whether a number of rows was not found in the data."""
    return any(stage.plan.decisions["examples"].origin != "data" for stage in stages)


def stating(stages: Sequence[StageJob]) -> dict[str, Any]:
    """Whether planned rows are compared with prepared ones, and how far they may differ."""
    return {"states_rows": stages[0].job.because(states_rows(stages), "examples"), "rows_off": MOST_OFF}


def planned_rows(stage: StageJob) -> Arg:
    """The rows that the plan was made for, those that are split off among them."""
    return stage.arg("planned", "examples")
