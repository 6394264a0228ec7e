"""Layouts that the planner estimates and no back end writes yet."""

from __future__ import annotations

from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.layout import Layout
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe


def can_be_built(layout: Layout) -> bool:
    """Whether no layer is shared between ranks."""
    return layout.mesh.ranks_per_layer == 1


def check_buildable(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report the stages whose layers are spread over ranks: they can be planned, not built."""
    for stage in plan.stages:
        if not can_be_built(stage.layout):
            report.add(_not_built(loaded, stage))


def _not_built(loaded: LoadedRecipe, stage: StagePlan) -> Diagnostic:
    mesh = stage.layout.mesh
    groups = (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert))
    used = [f"{name}_parallel = {ranks}" for name, ranks in groups if ranks > 1]
    pinned = next((key for key, _ in groups if loaded.is_set("train", f"{key}_parallel")), None)
    place = loaded.place("train", f"{pinned}_parallel") if pinned else loaded.place("hardware")
    label = Label(place, f"stage {stage.stage.name} needs {' and '.join(used)}")
    note = "resuming is not supported by transformers 5.23 for models that are split at load, and bundles must resume"
    free = (f"leave train.{pinned}_parallel to be decided",) if pinned else ()
    return Diagnostic("E0410", "this plan cannot be built yet", (label,), (*free, *_instead(stage)), (note,))


def _instead(stage: StagePlan) -> list[str]:
    """The fastest alternative that can be built, states on the device if possible; the plan can still be read."""
    usable = [other for other in stage.rejected if other.seconds is not None and can_be_built(other.layout)]
    best = min(usable, key=lambda other: (other.layout.offload != "none", other.seconds), default=None)
    found = []
    if best is not None:
        found.append(f"{' and '.join(pins(best.layout))} fits and can be built: {best.family}")
    return [*found, "`recipec plan` shows this plan with all its figures"]


def pins(layout: Layout) -> list[str]:
    """What a recipe says in [train] to get a layout of this kind."""
    keys = [f'train.adaptation = "{layout.adaptation}"']
    keys += [f'train.strategy = "{layout.strategy}"']
    keys += [f'train.offload = "{layout.offload}"'] if layout.offload != "none" else []
    keys += [] if layout.checkpointing else ["train.activation_checkpointing = false"]
    return keys + (["train.activation_offload = true"] if layout.activation_offload else [])
