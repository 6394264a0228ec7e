"""A larger global batch that the rule accepts as well, where the whole run takes less with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, takewhile

from msgspec.structs import replace

from recipec.planner.advice.change import Proposal, planned, setting
from recipec.planner.advice.whole_runs import WORTH_NAMING, WholeRuns
from recipec.planner.search.bounds import bounds_of
from recipec.planner.search.candidates import retimed, seconds_per_sequence, with_batch
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.global_batch import largest_batch
from recipec.planner.search.sequences import settled_method
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish


def larger_batch(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The smallest with which the run is shorter by what options name: recipec itself raises a batch only where it is
    clearly faster, as fewer updates learn otherwise. Answers that are written together are an option of their own."""
    assert found.chosen is not None and found.ledger is not None
    batch = found.ledger.decisions["global_batch_size"]
    idle = found.chosen.layout.gpus < context.facts.machines.gpus  # what gives all of them work is told with them
    if batch.origin == "recipe" or idle or settled_method(found.ledger.decisions).generates:
        return
    for size in _promising(context, found, loaded):
        wishes = {**context.wishes, "train.global_batch_size": Wish(size, "an option")}
        changed = replace(context, wishes=wishes)
        then = fit(changed, loaded)
        if then.chosen is None or then.ledger is None or then.chosen.layout.adapts is not found.chosen.layout.adapts:
            continue
        if not then.chosen.layout.can_be_built or not then.chosen.layout.on_device:
            continue
        run = runs.of(changed, then)
        if run.seconds <= WORTH_NAMING * runs.now.seconds:
            steps = (each.decisions["total_steps"].value for each in (then.ledger, found.ledger))
            fewer = "the weights have fewer updates, {:,} instead of {:,}".format(*steps)
            change, but = setting(train__global_batch_size=size), (f"{fewer}, so recipec keeps the usual batch",)
            yield planned(change, run.beside, found.chosen, then.chosen, but=but)
            return


def _promising(context: Context, found: Fit, loaded: LoadedRecipe) -> list[int]:
    """Larger batches, each twice the one before, whose steps alone would be enough faster, were there memory for all of
    a rank's share at once."""
    assert found.chosen is not None and found.ledger is not None
    chosen, bounds = found.chosen, bounds_of(context, found.ledger, loaded)
    now, most = chosen.layout.global_batch, largest_batch(found.ledger)
    sizes = [*takewhile(lambda size: size <= most, (now << doublings for doublings in count(1)))]
    ranks = chosen.layout.mesh.data_parallel
    grown = [replace(chosen, layout=with_batch(chosen.layout, max(1, size // ranks), size)) for size in sizes]
    timed = retimed(grown, context.facts, bounds)
    fastest = WORTH_NAMING * seconds_per_sequence(chosen)
    return [size for size, each in zip(sizes, timed, strict=True) if seconds_per_sequence(each) <= fastest]
