"""Another engine that writes the answers of a method: its plan beside the present one."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS, Generator
from recipec.estimate.cost import Cost
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.whole_runs import WholeRuns, same_adaptation
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

SAVES = 0.9  # of the time of the whole run that another engine takes at most; our decision
_KEY = f"alignment.{ENGINE.key}"
_UNPROVEN = f"recipec does not take it by itself, as what it plans for {{}} was never measured on a GPU ({ENGINE.id})"


def other_engine(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The engine with the cheapest run, where the recipe names none and the run is clearly shorter."""
    if ENGINE not in METHODS[context.stage.name].own or _KEY in context.wishes:
        return
    assert found.chosen is not None
    engines = [each for row in GENERATORS.values() for each in _planned(context, found, loaded, runs, row)]
    if engines:
        row, run, then = min(engines, key=lambda each: (inf if each[1].usd is None else each[1].usd, each[1].seconds))
        needs = f"the bundle then needs the package {' and '.join(row.packages)}"
        effect = f"{row.title} writes the answers, and {runs.beside(run)}"
        change, but = Change(((_KEY, row.name),)), (needs, _UNPROVEN.format(row.title))
        yield planned(change, effect, found.chosen, then, but=but)


def _planned(
    context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns, row: Generator
) -> Iterator[tuple[Generator, Cost, Candidate]]:
    """The whole run with an engine that has its own copy of the weights, where it trains the same in less time."""
    assert found.chosen is not None
    if not row.own_copy or (row.beside and context.facts.machines.gpus_per_node == 1):
        return
    wishes = {**same_adaptation(context, found), _KEY: Wish(row.name, "an option")}
    changed = replace(context, wishes=wishes)
    then = fit(changed, loaded)
    if then.chosen is None or not then.chosen.layout.can_be_built or then.chosen.crowds_host:
        return
    run = runs.of(changed, then)
    if then.chosen.layout.adapts is found.chosen.layout.adapts and run.seconds <= SAVES * runs.now.seconds:
        yield row, run, then.chosen
