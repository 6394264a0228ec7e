"""What a finished plan must keep to: the budget, the policy, and what the back ends can write."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.layout import Layout
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe


def check_limits(loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report) -> None:
    """Report what breaks [budget] (E0403) and [policy] (E0404)."""
    _budget(loaded, plan, report)
    _policy(loaded, licence, plan, report)


def _budget(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    budget = loaded.recipe.budget
    hours, usd = plan.seconds / 3600, plan.cost_usd
    if budget.max_hours is not None and hours > budget.max_hours:
        share = budget.max_hours / hours
        _over(loaded, plan, "max_hours", f"the plan takes {hours:.1f} hours of {budget.max_hours:g}", share, report)
    if budget.max_cost_usd is not None and usd is None:
        label = Label(loaded.place("budget", "max_cost_usd"), "cannot be compared with anything")
        help = ("set budget.price_per_gpu_hour, or name a table of prices: budget.prices",)
        report.add(Diagnostic("E0403", "the budget cannot be checked: no price is known for this GPU", (label,), help))
    elif budget.max_cost_usd is not None and usd is not None and usd > budget.max_cost_usd:
        _over(loaded, plan, "max_cost_usd", f"the plan costs ${usd:,.2f}", budget.max_cost_usd / usd, report)


def _over(loaded: LoadedRecipe, plan: Plan, key: str, message: str, share: float, report: Report) -> None:
    label = Label(loaded.place("budget", key), message)
    help = ("fewer epochs or examples or a smaller model take less",)
    report.add(Diagnostic("E0403", f"over budget: {message}", (label,), (*_within(plan, share), *help)))


def _within(plan: Plan, share: float) -> tuple[str, ...]:
    """The first alternative of a stage with which the plan takes no more than `share` of its time, hence cost."""
    for stage in plan.stages:
        for other in stage.rejected:
            if other.seconds is None or not other.layout.can_be_built:
                continue
            seconds = plan.seconds - stage.seconds + other.seconds
            if seconds <= share * plan.seconds:
                return (f"{' and '.join(pins(other.layout))} takes {seconds / 3600:.1f} hours: {other.family}",)
    return ()


def _policy(loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report) -> None:
    policy = loaded.recipe.policy
    for path, its, found in ((("model", "name"), "its licence", licence), *_licences_beside(plan)):
        if policy.licences is not None and (found or "").casefold() not in map(str.casefold, policy.licences):
            broken = f"{its} is {found}" if found else f"{its} is not known to the catalog"
            _broken(loaded, path, broken, "licences", report)
    if policy.max_usd is not None and plan.cost_usd is None:
        _broken(loaded, ("hardware",), "what it costs is unknown, see budget.price_per_gpu_hour", "max_usd", report)
    elif policy.max_usd is not None and plan.cost_usd > policy.max_usd:
        _broken(loaded, ("hardware",), f"the plan costs ${plan.cost_usd:,.2f}", "max_usd", report)


def _licences_beside(plan: Plan) -> Iterator[tuple[tuple[str, str], str, str | None]]:
    """Where the recipe names the models that run beside the trained one, and their licences."""
    for stage in plan.stages:
        for role in METHODS[stage.stage.name].named_models:
            yield ("alignment", role), f"the licence of the {role}", stage.decisions[f"{role}_licence"].value


def _broken(loaded: LoadedRecipe, path: tuple[str, ...], found: str, limit: str, report: Report) -> None:
    labels = (Label(loaded.place(*path), found), Label(loaded.place("policy", limit), "the limit is here"))
    help = ("keep to the limit, or ask whoever owns the policy",)
    report.add(Diagnostic("E0404", f"the policy's `{limit}` is broken: {found}", labels, help))


def check_buildable(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report the stages whose layers are spread over ranks: they can be planned, not built."""
    for stage in plan.stages:
        if not stage.layout.can_be_built:
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
    usable = [other for other in stage.rejected if other.seconds is not None and other.layout.can_be_built]
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
