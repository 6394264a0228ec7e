"""Another engine that writes the answers of a method: its plan beside the present one."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec.structs import replace

from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS
from recipec.estimate.cost import Cost
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import Changes, other_engines, smaller_batch
from recipec.planner.advice.whole_runs import ChangedRun, WholeRuns, same_adaptation
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe

SAVES = 0.9  # of the time or the cost of the whole run that another engine takes at most; our decision
_KEY, _BATCH = f"alignment.{ENGINE.key}", "train.global_batch_size"
_UNPROVEN = f"recipec does not take it by itself, as what it plans for {{}} was never measured on a GPU ({ENGINE.id})"


def other_engine(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The engine with the cheapest run, where the recipe names none and the run is clearly shorter or cheaper."""
    if _KEY in context.wishes:
        return
    assert found.chosen is not None
    engines = [each for way in other_engines(context) for each in _planned(*way, context, found, loaded, runs)]
    if engines:
        change, run, then = min(engines, key=_price)
        row = GENERATORS[dict(change.sets)[_KEY]]
        needs = f"the bundle then needs the package {' and '.join(row.packages)}"
        effect = f"{row.title} writes the answers, and {run.beside}"
        yield planned(change, effect, found.chosen, then, but=(needs, _UNPROVEN.format(row.title)))


def _planned(
    change: Change, changed: Context, context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns
) -> Iterator[tuple[Change, ChangedRun, Candidate]]:
    """The whole run with an engine that has its own copy of the weights, where it trains the same at less cost."""
    assert found.chosen is not None
    adapts = found.chosen.layout.adapts
    kept = replace(changed, wishes={**same_adaptation(context, found), **changed.wishes})
    for asked, each in ((change, kept), *_with_smaller_batches(change, kept)):
        then = fit(each, loaded)
        if then.chosen is None or not then.chosen.layout.can_be_built or then.chosen.crowds_host:
            continue
        moved = each.facts.machines != context.facts.machines
        run = (runs.of_all if moved else runs.of)(each, then)
        if then.chosen.layout.adapts is adapts and _pays(run, run.now):
            yield asked, run, then.chosen
        return


def _with_smaller_batches(change: Change, changed: Context) -> Changes:
    """The same with fewer answers at once, where the recipe leaves their number open: the engine takes memory."""
    for smaller, then in smaller_batch(changed) if _BATCH not in changed.wishes else ():
        yield Change((*change.sets, *smaller.sets)), then


def _price(planned: tuple[Change, ChangedRun, Candidate]) -> tuple[float, float]:
    _, run, _ = planned
    return inf if run.usd is None else run.usd, run.seconds


def _pays(run: Cost, now: Cost) -> bool:
    """Whether a run is clearly shorter, or clearly cheaper, as one on fewer nodes may be."""
    cheaper = run.usd is not None and now.usd is not None and run.usd <= SAVES * now.usd
    return cheaper or run.seconds <= SAVES * now.seconds
