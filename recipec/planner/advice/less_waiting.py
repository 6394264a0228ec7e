"""What a recipe may train or batch otherwise so that its GPUs wait less for the network: each is a planned run."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.axes.adaptations import MATRICES
from recipec.planner.advice.change import Change
from recipec.planner.advice.keys import told
from recipec.planner.advice.waiting import waits_for_network
from recipec.planner.advice.ways_out import fits_in, fitting
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.planner.search.global_batch import largest_batch
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

WORTH_NAMING = 0.9  # of the training time; our decision
_ADAPTATION, _BATCH = "train.adaptation", "train.global_batch_size"
ADAPTER = next(row for row in ADAPTATIONS.values() if row.trains == MATRICES)  # the table begins with the usual ones


def less_waiting(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> tuple[str, ...]:
    """Adapters instead of all weights, and the largest global batch that is accepted; empty where little waits."""
    if found.chosen is None or not waits_for_network(context.facts.machines, found.chosen):
        return ()
    changes = (*_adapters(context, found), *_larger_batch(found))
    return tuple(line for change in changes for line in _planned(context, found, change, loaded, runs))


def _adapters(context: Context, found: Fit) -> Iterator[Change]:
    """Their gradients are few: nodes hardly wait for each other."""
    assert found.chosen is not None
    if found.chosen.layout.adapts.trains_all and ADAPTER.name in METHODS[context.stage.name].adaptations:
        yield Change(((_ADAPTATION, ADAPTER.family),))


def _larger_batch(found: Fit) -> Iterator[Change]:
    """GPUs wait for each other once in a step; recipec itself raises a batch that the recipe leaves open."""
    assert found.ledger is not None
    batch = found.ledger.decisions["global_batch_size"]
    if batch.origin != "recipe":
        return
    most = largest_batch(found.ledger)
    doubled = [batch.value << times for times in range(1, 20) if batch.value << times <= most]
    yield from (Change(((_BATCH, size),)) for size in doubled[-1:])


def _planned(context: Context, found: Fit, change: Change, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """A change with what its plan gives, where that trains clearly faster."""
    wishes = {**context.wishes, **{key: Wish(value, "less waiting") for key, value in change.sets}}
    changed = replace(context, wishes=wishes)
    then = fitting(changed, loaded)
    if then is not None and then.chosen is not None and pass_seconds(then) <= WORTH_NAMING * pass_seconds(found):
        yield told(
            context, change, fits_in(then.chosen), found.chosen, then.chosen, but=(runs.of(changed, then).beside,)
        )
