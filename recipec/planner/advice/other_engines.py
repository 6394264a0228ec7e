"""Another engine that writes the answers of a method: its plan beside the present one."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec.structs import replace

from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS, Generator
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import Changes, other_engines, smaller_batch, unpinned
from recipec.planner.advice.whole_runs import STATED, ChangedRun, WholeRuns, pays, same_adaptation
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe

SAVES = 0.9  # of the time or the cost of the whole run that another engine takes at most; our decision
_KEY, _BATCH = f"alignment.{ENGINE.key}", "train.global_batch_size"
_UNPROVEN = f"recipec does not take it by itself, as what it plans for {{}} was never measured on a GPU ({ENGINE.id})"


def other_engine(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The engine with the cheapest run, where the run is clearly shorter or cheaper, also beside a stated one."""
    assert found.chosen is not None
    engines = [each for way in _ways(context) for each in _planned(*way, context, found, loaded, runs)]
    if engines:
        change, run, then = min(engines, key=_price)
        row = GENERATORS[dict(change.sets).get(_KEY, ENGINE.value)]
        where = f" on {'GPUs of its own' if row.beside else 'the GPUs that train'}" * (_KEY in context.wishes)
        effect = f"{row.title} writes the answers{where}, and {run.beside}"
        yield planned(change, effect, found.chosen, then, but=tuple(_needs(context, row)))


def _needs(context: Context, row: Generator) -> Iterator[str]:
    """The packages that the bundle then needs, and why recipec leaves it to the recipe."""
    wish = context.wishes.get(_KEY)
    there = GENERATORS[wish.value].packages if wish is not None else ()
    if more := [name for name in row.packages if name not in there]:
        yield f"the bundle then needs the package {' and '.join(more)}"
    if row.own_copy:
        yield _UNPROVEN.format(row.title)


def _ways(context: Context) -> Changes:
    """Every engine but the one that is taken now; without the key it is the one that has no copy of the weights."""
    if (wish := context.wishes.get(_KEY)) is None:
        yield from other_engines(context)
        return
    if GENERATORS[wish.value].own_copy:
        yield from unpinned(context, (_KEY,))
    free = replace(context, wishes={key: each for key, each in context.wishes.items() if key != _KEY})
    yield from (way for way in other_engines(free) if (_KEY, wish.value) not in way[0].sets)


def _planned(
    change: Change, changed: Context, context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns
) -> Iterator[tuple[Change, ChangedRun, Candidate]]:
    """The whole run with another engine, where it trains the same at less cost."""
    assert found.chosen is not None
    adapts, share = found.chosen.layout.adapts, STATED if _KEY in context.wishes else SAVES
    kept = replace(changed, wishes=same_adaptation(changed, found))
    for asked, each in ((change, kept), *_with_smaller_batches(change, kept)):
        then = fit(each, loaded)
        if then.chosen is None or not then.chosen.layout.can_be_built or then.chosen.crowds_host:
            continue
        moved = each.facts.machines != context.facts.machines
        run = (runs.of_all if moved else runs.of)(each, then)
        if then.chosen.layout.adapts is adapts and pays(run, run.now, share):
            yield asked, run, then.chosen
        return


def _with_smaller_batches(change: Change, changed: Context) -> Changes:
    """The same with fewer answers at once, where the recipe leaves their number open: the engine takes memory."""
    for smaller, then in smaller_batch(changed) if _BATCH not in changed.wishes else ():
        yield Change((*change.sets, *smaller.sets)), then


def _price(planned: tuple[Change, ChangedRun, Candidate]) -> tuple[float, float]:
    _, run, _ = planned
    return inf if run.usd is None else run.usd, run.seconds
