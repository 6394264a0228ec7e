"""What a plan takes beside what [budget] allows (E0403), and other plans of the same rows that take less."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from recipec.axes import COMMON_SECTION, METHODS, SECTIONS, sections_of
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.estimate.cost import Cost
from recipec.planner.advice.keys import for_stage
from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import KL_CONTROL, either, own_keys
from recipec.units import duration


class Others(Struct, frozen=True):
    """Other plans of the same rows, made where a budget is exceeded."""

    without_judge: Callable[[], Plan | None]  # of a method without a reward model; None where the plan trains none
    on_other_layouts: Callable[[], str]  # within the budget: a line for the user; "" where there is none
    on_fewer: Callable[[], str]  # GPUs, likewise
    on_adapters: Callable[[], str]  # instead of all weights, likewise
    shorter: Callable[[], str]  # with fewer passes, likewise
    smaller: Callable[[], str]  # with a smaller model, likewise


NO_OTHERS = Others(lambda: None, str, str, str, str, str)
_UNKNOWN = "the budget cannot be checked: no price is known for this GPU"


def check_budget(loaded: LoadedRecipe, plan: Plan, report: Report, others: Others = NO_OTHERS) -> None:
    """Report what takes more than [budget] allows (E0403), with other plans of the rows that keep to it."""
    gpus = plan.stages[0].decisions["gpus"].value
    for key, message in _exceeded(loaded, Cost(plan.seconds, plan.cost_usd, ""), gpus):
        _over(loaded, plan, key, message, others, report)
    if loaded.recipe.budget.max_cost_usd is not None and plan.cost_usd is None:
        no_price(loaded, report)


def broken(loaded: LoadedRecipe, run: Cost, gpus: int) -> str:
    """What a whole run on so many GPUs breaks of the budget; "" where it keeps to it, or has none."""
    unknown = _UNKNOWN * (loaded.recipe.budget.max_cost_usd is not None and run.usd is None)
    return next((f"over budget: {message}" for _, message in _exceeded(loaded, run, gpus)), unknown)


def _exceeded(loaded: LoadedRecipe, run: Cost, gpus: int) -> Iterator[tuple[str, str]]:
    """The limits of [budget] that a whole run breaks, and by how much."""
    (hours, gpu_hours, usd), taken = _limits(loaded), run.seconds / 3600
    if hours is not None and taken > hours:
        yield "max_hours", "the plan takes {}, the limit is {}".format(*_apart(run.seconds, 3600 * hours))
    if gpu_hours is not None and taken * gpus > gpu_hours:
        yield "max_gpu_hours", f"the plan takes {taken * gpus:,.3f} GPU hours, the limit is {gpu_hours:,g}"
    if usd is not None and run.usd is not None and run.usd > usd:
        cents = 2 if round(run.usd, 2) > round(usd, 2) else 6
        yield "max_cost_usd", f"the plan costs ${run.usd:,.{cents}f}, the limit is ${usd:,.{cents}f}"


def no_price(loaded: LoadedRecipe, report: Report) -> None:
    """Report a limit of the cost where no price of the GPU is known (E0403)."""
    label = Label(loaded.place("budget", "max_cost_usd"), "no price to compare with")
    help = ("set `budget.price_per_gpu_hour`, or name a table of prices in `budget.prices`",)
    report.add(Diagnostic("E0403", _UNKNOWN, (label,), help))


def _apart(taken_seconds: float, limit_seconds: float) -> tuple[str, str]:
    """Two times as text, in seconds where they would read alike."""
    texts = duration(taken_seconds), duration(limit_seconds)
    return texts if texts[0] != texts[1] else (f"{taken_seconds:,.1f} s", f"{limit_seconds:,.1f} s")


def _over(loaded: LoadedRecipe, plan: Plan, key: str, message: str, others: Others, report: Report) -> None:
    label = Label(loaded.place("budget", key), message)
    fewer = "" if key == "max_hours" else others.on_fewer()
    within = others.on_other_layouts() or others.on_adapters()
    own = (within, fewer, others.shorter(), others.smaller(), _less(loaded, plan))
    ways = (*_in_fewer_stages(loaded, plan, others.without_judge()), *own)
    report.add(Diagnostic("E0403", f"over budget: {message}", (label,), tuple(filter(None, ways))))


def _less(loaded: LoadedRecipe, plan: Plan) -> str:
    """What takes less in general; as many steps as the recipe says are taken of fewer rows, too."""
    steps = [stage.decisions["max_steps"].origin == "recipe" for stage in plan.stages]
    keys = (f"train.{'max_steps' if fixed else 'epochs'}" for fixed in steps)
    named = dict.fromkeys(for_stage(key, stage, loaded) for key, stage in zip(keys, plan.stages, strict=True))
    ways = [f"lower {either(named, '`')}", *["use fewer rows"] * (not all(steps)), "take a smaller model"]
    return either(ways, "")


def _in_fewer_stages(loaded: LoadedRecipe, plan: Plan, other: Plan | None) -> tuple[str, ...]:
    """The plan of the method that learns from the pairs themselves, with its figures, and whether it is in budget."""
    if other is None:
        return ()
    method = METHODS[other.stages[-1].stage.name]
    price = "" if other.cost_usd is None else f" and ${other.cost_usd:,.2f}"
    gpus, run = other.stages[0].decisions["gpus"].value, Cost(other.seconds, other.cost_usd, "")
    over_too = "" if within_budget(loaded, run, gpus) else ", still over the budget"
    why = f"{method.name.upper()} learns from the pairs without a reward model"
    return (f"{_setting(loaded, plan, other)}: {why} and takes {duration(other.seconds)}{price}{over_too}",)


def _setting(loaded: LoadedRecipe, plan: Plan, other: Plan) -> str:
    """What makes another plan of this one: the name of its method, without what only the stages that go read."""
    method = METHODS[other.stages[-1].stage.name]
    level = " in place of `alignment.kl_control`" if loaded.asks_method == KL_CONTROL else ""
    read = (COMMON_SECTION, *sections_of([method]))
    idle = [f"data.{name}" for name in SECTIONS if name not in read and not loaded.pairs_asked(name)]
    run = {stage.stage.name for stage in other.stages}
    idle += [f"train.{stage.stage.name}" for stage in plan.stages if stage.stage.name not in run]
    written = [name for name in idle if loaded.is_set(*name.split("."))]
    asked = own_keys({**(loaded.value("alignment") or {}), "method": None, "kl_control": None})
    written += [f"alignment.{key}" for key, value in asked if value is not None and not method.can_set(key, value)]
    removed = f" and remove {either(written, '`', 'and')}" if written else ""
    return f'set `alignment.method = "{method.alignment}"`{level}{removed}'


def within_budget(loaded: LoadedRecipe, run: Cost, gpus: int) -> bool:
    """Whether a whole run on so many GPUs keeps to [budget]; a price that is not known breaks nothing."""
    hours = run.seconds / 3600
    limits, taken = _limits(loaded), (hours, hours * gpus, run.usd)
    return all(None in (most, each) or each <= most for each, most in zip(taken, limits, strict=True))


def share_left(loaded: LoadedRecipe, plan: Plan) -> float:
    """The part of a plan's time that all limits of [budget] leave: cost and GPU hours shrink with it."""
    taken = (plan.seconds / 3600, plan.gpu_hours, plan.cost_usd)
    return min(most / each for each, most in zip(taken, _limits(loaded), strict=True) if each and most is not None)


def over_budget(loaded: LoadedRecipe, run: Cost, now: Cost, gpus: int, present_gpus: int) -> str:
    """What is said behind the figures of a changed run that breaks [budget], and that the present one does as well."""
    if within_budget(loaded, run, gpus):
        return ""
    return f",{'' if within_budget(loaded, now, present_gpus) else ' still'} over the budget"


def is_limited(loaded: LoadedRecipe) -> bool:
    """Whether [budget] has a limit."""
    return any(most is not None for most in _limits(loaded))


def _limits(loaded: LoadedRecipe) -> tuple[float | None, float | None, float | None]:
    """Of hours, GPU hours and dollars."""
    budget = loaded.recipe.budget
    return budget.max_hours, budget.max_gpu_hours, budget.max_cost_usd
