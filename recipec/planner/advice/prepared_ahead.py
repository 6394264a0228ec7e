"""What it costs that GPUs wait for the rows: a machine without GPUs can prepare them, and one node can tokenize them,
before the GPUs are rented."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.estimate.whole_run import TOKENIZATION, RunPart
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import NO_SCRIPT
from recipec.units import counted, duration, usd

WORTH_PREPARING_AHEAD = 3600.0  # GPU seconds that the GPUs wait for; our decision


def spared_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that the GPUs need not wait for the rows of all stages; 0 where that is little of their time."""
    return _spared(plan, loaded, sum(stage.preparation_seconds for stage in plan.stages))


def tokenizing_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that all other nodes need not wait for the tokens of all stages, where one of them makes them first; 0
    where that is little of their time, or there is one node."""
    several = any(stage.layout.gpus > stage.decisions["gpus_per_node"].value for stage in plan.stages)
    return _spared(plan, loaded, sum(stage.tokenizing_seconds for stage in plan.stages)) if several else 0.0


def _spared(plan: Plan, loaded: LoadedRecipe, seconds: float) -> float:
    """The launch script alone finds what is made ahead: what starts a run without that script is not known."""
    return seconds if loaded.recipe.launch.with_ != NO_SCRIPT and _costs(plan.stages[0], seconds) else 0.0


def _costs(stage: StagePlan, seconds: float) -> bool:
    gpus, on_cpu = stage.decisions["gpus"].value, stage.decisions["gpu_is_cpu"].value
    return not on_cpu and gpus * seconds >= WORTH_PREPARING_AHEAD


def with_rows_ahead(plan: Plan, loaded: LoadedRecipe) -> Plan:
    """The plan that says what the GPUs wait for long enough, and whose first stage names the ways without."""
    first, *others = (_told(stage) for stage in plan.stages)
    ways = _ways(plan, loaded, " for all stages" * bool(others))
    return replace(plan, stages=(replace(first, options=(*first.options, *ways)), *others))


def _ways(plan: Plan, loaded: LoadedRecipe, of: str) -> Iterator[str]:
    first = plan.stages[0]
    if seconds := spared_seconds(plan, loaded):
        yield (
            "prepare the rows on a machine without GPUs, as README.md of the bundle says: prepare_data.py needs none, "
            f"and otherwise {waiting_gpus(first)} for it, {duration(seconds)}{_money(first, seconds, ' and {}')}{of}"
        )
    if seconds := tokenizing_seconds(plan, loaded):
        yield (
            "tokenize the rows on one node before the others are rented, as README.md of the bundle says: otherwise "
            f"{waiting_gpus(first)} for train.py, {duration(seconds)}{_money(first, seconds, ' and {}')}{of}"
        )


def _told(stage: StagePlan) -> StagePlan:
    """The stage whose part of tokenization says what waits for it."""
    return replace(stage, parts=tuple(_with_wait(stage, part) for part in stage.parts))


def _with_wait(stage: StagePlan, part: RunPart) -> RunPart:
    if part.name != TOKENIZATION or not _costs(stage, part.seconds):
        return part
    told = f"{part.because}, while {waiting_gpus(stage)}{_money(stage, part.seconds, ' ({})')}"
    return replace(part, because=told)


def waiting_gpus(stage: StagePlan) -> str:
    """Who waits for a stage: "8 GPUs wait"."""
    gpus = stage.decisions["gpus"].value
    return f"{counted(gpus, 'GPU')} {'waits' if gpus == 1 else 'wait'}"


def _money(stage: StagePlan, seconds: float, text: str) -> str:
    """`text` with what so many seconds of all GPUs cost; "" where their price is not known."""
    price = stage.decisions["gpu_price"].value
    return "" if price is None else text.format(usd(stage.decisions["gpus"].value * seconds / 3600 * price))
