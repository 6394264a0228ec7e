"""What the adapters of several tasks must have in common, so that they can be combined."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from recipec.axes import BASES
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe


def side_by_side(plans: Mapping[str, Plan]) -> Plan:
    """One plan of all tasks: their stages in the order of the recipe, each known by its task."""
    first = next(iter(plans.values()))
    found = [_of_task(stage, name) for name, plan in plans.items() for stage in plan.stages]
    return Plan(tuple(found), first.selection)


def _of_task(stage: StagePlan, task: str) -> StagePlan:
    return replace(stage, stage=replace(stage.stage, task=task))


def check_common_base(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report adapters that the plan trains on bases that are stored differently (E0414)."""
    bases = {stage.stage.task: BASES[stage.layout.adapts.base].name for stage in plan.stages if stage.stage.task}
    if len(set(bases.values())) < 2:
        return
    trained = ", ".join(f"{task}: {base}" for task, base in bases.items())
    label = Label(loaded.place("adapters"), f"`train.quantization` is decided for each adapter: {trained}")
    values = " or ".join(f'"{base}"' for base in dict.fromkeys(bases.values()))
    help = (f"set `train.quantization` for all adapters: {values}",)
    report.add(Diagnostic("E0414", "the adapters would be trained on different bases", (label,), help))
