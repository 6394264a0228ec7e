"""What it costs that GPUs wait for the rows, which a machine without GPUs could prepare before they are rented."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import NO_SCRIPT
from recipec.units import counted, duration, usd

WORTH_PREPARING_AHEAD = 3600.0  # GPU seconds that prepare_data.py takes; our decision


def spared_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that the GPUs need not wait for the rows of all stages; 0 where that is little of their time.

    The launch script alone finds the rows up to date: what starts a run without that script is not known.
    """
    first, seconds = plan.stages[0].decisions, sum(stage.preparation_seconds for stage in plan.stages)
    waited = loaded.recipe.launch.with_ != NO_SCRIPT and not first["gpu_is_cpu"].value
    return seconds if waited and first["gpus"].value * seconds >= WORTH_PREPARING_AHEAD else 0.0


def with_rows_ahead(plan: Plan, loaded: LoadedRecipe) -> Plan:
    """The plan whose first stage names the way without paid GPUs, where they would wait long enough."""
    seconds, (first, *others) = spared_seconds(plan, loaded), plan.stages
    if not seconds:
        return plan
    gpus, price = first.decisions["gpus"].value, first.decisions["gpu_price"].value
    cost = "" if price is None else f" and {usd(gpus * seconds / 3600 * price)}"
    option = (
        "prepare the rows on a machine without GPUs, as README.md of the bundle says: prepare_data.py needs none, and "
        f"otherwise {counted(gpus, 'GPU')} {'waits' if gpus == 1 else 'wait'} for it, {duration(seconds)}{cost}"
        f"{' for all stages' * bool(others)}"
    )
    return replace(plan, stages=(replace(first, options=(*first.options, option)), *others))
