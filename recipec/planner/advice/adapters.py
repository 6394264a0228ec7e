"""What the adapters of several tasks must have in common, so that they can be combined."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.axes import BASES, ROW_FORMATS
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe


def side_by_side(plans: Mapping[str, Plan]) -> Plan:
    """One plan of all tasks: their stages in the order of the recipe."""
    first = next(iter(plans.values()))
    return Plan(tuple(stage for plan in plans.values() for stage in plan.stages), first.selection)


def check_adapters(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report adapters that combine.py could not add up (E0414)."""
    _check_bases(loaded, plan, report)
    _check_experts(loaded, plan, report)
    _check_formats(loaded, plan, report)


def _check_formats(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """A question is asked of all adapters in the same words: as a turn of the chat template, or as plain text."""
    formats = {stage.stage.task: str(stage.decisions["data_format"].value) for stage in plan.stages if stage.stage.task}
    if len({ROW_FORMATS[format].turns for format in formats.values()}) > 1:
        trained = ", ".join(f"{task}: {format}" for task, format in formats.items())
        label = Label(loaded.place("adapters"), f"rows of each adapter: {trained}")
        help = ("write the texts as prompts and completions or conversations, or train them in a recipe of their own",)
        note = "combine.py compares and asks all adapters with one question, which is a turn or plain text"
        title = "adapters of texts and of conversations cannot be asked together"
        report.add(Diagnostic("E0414", title, (label,), help, (note,)))


def _check_experts(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """The matrices of all experts are stored as one tensor, in which ranks are not apart."""
    adapted = [stage.stage.task for stage in plan.stages if stage.stage.task and "lora_expert_rank" in stage.decisions]
    if adapted:
        label = Label(loaded.place("adapters"), f"adapters on the experts: {', '.join(adapted)}")
        help = ('set `targets = "attention"` under [train.lora], which leaves the experts as they are',)
        note = "PEFT stores the matrices of all experts of a layer in one tensor, which combine.py cannot take apart"
        title = "adapters on the experts of a mixture of experts cannot be combined"
        report.add(Diagnostic("E0414", title, (label,), help, (note,)))


def _check_bases(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """What an adapter learned on a quantized base is no update of the unquantized one."""
    bases = {stage.stage.task: BASES[stage.layout.adapts.base].name for stage in plan.stages if stage.stage.task}
    if len(set(bases.values())) < 2:
        return
    trained = ", ".join(f"{task}: {base}" for task, base in bases.items())
    label = Label(loaded.place("adapters"), f"`train.quantization` is decided for each adapter: {trained}")
    values = " or ".join(f'"{base}"' for base in dict.fromkeys(bases.values()))
    help = (f"set `train.quantization` for all adapters: {values}",)
    report.add(Diagnostic("E0414", "the adapters would be trained on different bases", (label,), help))
