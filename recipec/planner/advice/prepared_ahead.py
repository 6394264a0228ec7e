"""What it costs that GPUs wait for the rows, which a machine without GPUs could prepare before they are rented."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import NO_SCRIPT
from recipec.units import counted, duration, usd

WORTH_PREPARING_AHEAD = 3600.0  # GPU seconds that prepare_data.py takes; our decision


def prepared_ahead(plan: StagePlan, loaded: LoadedRecipe) -> Iterator[str]:
    """The way without paid GPUs, where they would wait long enough, and the launch script finds the rows up to date.

    What starts a run without that script is not known.
    """
    if loaded.recipe.launch.with_ == NO_SCRIPT:
        return
    gpus, seconds, price = plan.decisions["gpus"].value, plan.preparation_seconds, plan.decisions["gpu_price"].value
    if plan.decisions["gpu_is_cpu"].value or gpus * seconds < WORTH_PREPARING_AHEAD:
        return
    cost = "" if price is None else f" and {usd(gpus * seconds / 3600 * price)}"
    yield (
        "prepare the rows on a machine without GPUs, as README.md of the bundle says: prepare_data.py needs none, and "
        f"otherwise {counted(gpus, 'GPU')} {'waits' if gpus == 1 else 'wait'} for it, {duration(seconds)}{cost}"
    )
