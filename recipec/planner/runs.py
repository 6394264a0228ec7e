"""The whole run of a stage with a layout that fits, of changed ones beside it, and of all stages together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import Adaptation
from recipec.estimate.cost import Cost, run_cost
from recipec.estimate.storage import checkpoint_bytes
from recipec.estimate.whole_run import RunPart, rates_of, written_seconds
from recipec.facts import Facts
from recipec.planner.advice.bill import bill
from recipec.planner.advice.budget import is_limited, over_budget
from recipec.planner.advice.comparison import Compared, compared
from recipec.planner.advice.evaluations import in_training
from recipec.planner.advice.needs import needs_of
from recipec.planner.advice.ways_out import beside
from recipec.planner.advice.whole_runs import ChangedRun, WholeRuns, run_told
from recipec.planner.outcome import record_layout, timed_inputs
from recipec.planner.plan import Needs
from recipec.planner.search.bounds import Bounds, bounds_of
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context, settle_steps
from recipec.planner.search.evaluating import evaluation_batch
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.nothing_learned import total_steps
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import DATA_SOURCES
from recipec.rules.core import Ledger
from recipec.rules.evaluation import looked_at
from recipec.rules.words import device


class PlannedRun(Struct, frozen=True):
    """What follows from a layout: how it compares, its optimizer steps, what it needs of a node, and its bill."""

    against: Compared
    steps: int
    needs: Needs
    parts: tuple[RunPart, ...]


def settled_run(context: Context, found: Fit, loaded: LoadedRecipe, bounds: Bounds) -> tuple[PlannedRun, Cost]:
    """The run of a layout that fits, which is written into its ledger, and what all of it costs."""
    assert found.chosen is not None and found.ledger is not None
    facts, ledger, chosen = context.facts, found.ledger, found.chosen
    against = compared(facts, ledger, chosen, found.tried, bounds)
    record_layout(ledger, chosen, facts, against, evaluation_batch(facts, ledger, chosen, bounds))
    steps = _settled_steps(ledger, chosen, facts, bounds)
    asked = loaded.recipe.evaluate.max_new_tokens
    needs = needs_of(facts, ledger, chosen, asked)
    of_hub = any(source.hub for part in DATA_SOURCES for source in getattr(loaded.recipe.data, part) or ())
    parts = tuple(bill(facts, ledger, chosen, bounds, needs, asked, of_hub))
    return PlannedRun(against, steps, needs, parts), _cost(context, chosen, sum(part.seconds for part in parts))


def _whole_run(context: Context, found: Fit, loaded: LoadedRecipe) -> Cost:
    """What the whole run of a changed recipe would take."""
    assert found.ledger is not None
    return settled_run(context, found, loaded, bounds_of(context, found.ledger, loaded))[1]


def runs_of(context: Context, now: Cost, loaded: LoadedRecipe, given: Sequence[Context] = ()) -> WholeRuns:
    """The whole run of a stage, and of changed ones beside it; `given` are all stages that share its budget."""

    @cache
    def all_now() -> Cost:
        return _together(context, given, context, now, loaded)

    def over(one: Context, all_changed: Cost) -> str:
        return over_budget(loaded, all_changed, all_now(), one.facts.machines.gpus, context.facts.machines.gpus)

    def changed_run(one: Context, then: Fit, changed: LoadedRecipe = loaded) -> ChangedRun:
        run = _whole_run(one, then, changed)
        limited = over(one, _together(context, given, one, run, changed)) if is_limited(loaded) else ""
        return ChangedRun(run.seconds, run.usd, run.because, limited, now, run_told(context))

    def changed_runs(one: Context, then: Fit, changed: LoadedRecipe = loaded) -> ChangedRun:
        run = _together(context, given, one, _whole_run(one, then, changed), changed)
        return ChangedRun(run.seconds, run.usd, run.because, over(one, run), all_now(), "the whole run")

    return WholeRuns(now, changed_run, changed_runs)


def _together(context: Context, given: Sequence[Context], one: Context, run: Cost, changed: LoadedRecipe) -> Cost:
    """The run of a stage with those of all others, as they are beside it, on the hardware of the changed recipe: each
    task has its own recipe."""
    contexts = [one if other.stage is context.stage else beside(one, context, other) for other in given]
    tasks = [[*of_task] for _, of_task in groupby(contexts, lambda each: each.stage.task)]
    with_recipe = [(of_task, _on_hardware_of(changed, of_task[0].facts.loaded)) for of_task in tasks]
    found = [(*pair, own) for of_task, own in with_recipe if len(given) > 1 for pair in fitted(of_task, own)]
    others = [_whole_run(other, then, own) for other, then, own in found if other.stage is not context.stage]
    return summed([run, *others])


def _on_hardware_of(changed: LoadedRecipe, own: LoadedRecipe) -> LoadedRecipe:
    """The recipe of a task on other hardware, which all tasks share."""
    recipe = own.recipe.model_copy(update={"hardware": changed.recipe.hardware})
    return replace(own, recipe=recipe)


def whole_runs(pairs: Sequence[tuple[Context, Fit]], loaded: LoadedRecipe) -> Cost:
    """What the whole runs of several stages would take together."""
    return summed([_whole_run(context, found, loaded) for context, found in pairs])


def summed(runs: Sequence[Cost]) -> Cost:
    """Several runs, one after the other."""
    usd = [run.usd for run in runs if run.usd is not None]
    return Cost(sum(run.seconds for run in runs), sum(usd) if len(usd) == len(runs) else None, "")


def _settled_steps(ledger: Ledger, chosen: Candidate, facts: Facts, bounds: Bounds) -> int:
    """The optimizer steps, with what depends on their number and on what a checkpoint takes to write."""
    assert chosen.time is not None
    steps = total_steps(ledger.wishes, ledger.decisions, chosen.layout.global_batch)
    saved_bytes = checkpoint_bytes(facts.model.architecture, chosen.layout, work_of(ledger, facts))
    saving_seconds = written_seconds(saved_bytes, rates_of(facts.gpu.measured))
    training = steps * chosen.time.seconds_per_step

    def looking() -> float:
        rows = looked_at({id: decision.value for id, decision in ledger.decisions.items()}, "eval")
        return in_training(facts, ledger, chosen, bounds, rows).seconds

    settle_steps(ledger, steps, training, saving_seconds, looking, timed_inputs(ledger))
    return steps


def fitted(given: Sequence[Context], loaded: LoadedRecipe) -> Sequence[tuple[Context, Fit]]:
    """All stages, each with a layout that can be built, without advice; none where one has none."""
    pairs = [*each_fitted(given, loaded)]
    return [pair for pair in pairs if pair] if None not in pairs else ()


def each_fitted(given: Sequence[Context], loaded: LoadedRecipe) -> Iterator[tuple[Context, Fit] | None]:
    """Each stage as soon as it is planned; None for the first that has no such layout, and then no more."""
    adapts: dict[str, Adaptation] = {}
    for context in given:
        changed = replace(context, before=adapts.get(context.stage.starts_from or ""))
        found = fit(changed, loaded)
        if found.chosen is None or not found.chosen.layout.can_be_built:
            yield None
            return
        adapts[context.stage.name] = found.chosen.layout.adapts
        yield changed, found


def _cost(context: Context, chosen: Candidate, seconds: float) -> Cost:
    """Of all devices for so long: what is idle is paid too."""
    facts = context.facts
    price, gpus = facts.decisions["gpu_price"], facts.machines.gpus
    idle, noun = gpus - chosen.layout.gpus, device(facts.decisions["gpu_is_cpu"].value)
    basis = price.because + (f"; {idle} of {gpus} {noun}s idle, and paid" if idle else "")
    return run_cost(seconds, gpus, price.value, basis, noun, run_told(context))
