"""Fewer GPUs that only write answers than their rule takes: its powers of two leave GPUs that train equal shares, and
times decide whether that pays."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.axes.answering import SERVER_GPUS
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import Changes
from recipec.planner.advice.other_engines import SAVES
from recipec.planner.advice.whole_runs import WholeRuns, pays, trains_alike
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

_KEY = f"alignment.{SERVER_GPUS.key}"


def fewer_servers(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The fewest with which the run is clearly shorter or cheaper, where the recipe leaves their number open."""
    assert found.chosen is not None
    for change, changed in _ways(context, found):
        then = fit(changed, loaded)
        if then.chosen is None or not trains_alike(then.chosen, found.chosen):
            continue
        run = runs.of(changed, then)
        if pays(run, run.now, SAVES):
            yield planned(change, run.beside, found.chosen, then.chosen)
            return


def _ways(context: Context, found: Fit) -> Changes:
    """Each smaller number that shares the heads of attention equally."""
    assert found.ledger is not None
    given = found.ledger.decisions
    if "server_gpus" in given and _KEY not in context.wishes:
        for gpus in (gpus for gpus in given["head_splits"].value if gpus < given["server_gpus"].value):
            wishes = {**context.wishes, _KEY: Wish(gpus, "more GPUs that train")}
            yield Change(((_KEY, gpus),)), replace(context, wishes=wishes)
