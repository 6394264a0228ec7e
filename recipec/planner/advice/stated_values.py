"""What a stage would take without a value that its recipe states, which decides how the stage runs and not what it
learns: a plan tells of one that costs much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import unpinned
from recipec.planner.advice.whole_runs import (
    STATED,
    WORTH_NAMING,
    ChangedRun,
    WholeRuns,
    pays,
    trains_alike,
)
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe

# What an engine or packed rows take is compared by other_engines and packed_rows, with more than the rule's own value.
HOW_IT_RUNS = (
    *("train.micro_batch_size", "train.activation_checkpointing", "train.recompute_every", "train.activation_offload"),
    *("train.offload", "train.strategy", "train.attention", "train.compile", "alignment.precompute_reference"),
    *("train.tensor_parallel", "train.context_parallel", "train.expert_parallel"),
    *("alignment.generation.engine_tensor_parallel", "alignment.generation.server_gpus"),
)
_KEEPS_OUT = {"train.offload": "none", "train.activation_offload": False}  # of host memory, for what else it is for
_Planned = tuple[Change, ChangedRun, Candidate]


def without_stated(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The fewest keys without which the run takes clearly less and trains the same; none where a key gives idle GPUs
    work, which is told with them."""
    keys = [key for key in HOW_IT_RUNS if key in context.wishes and context.wishes[key].value != _KEEPS_OUT.get(key)]
    ways = [each for way in unpinned(context, keys) for each in _planned(*way, context, found, loaded, runs)]
    if ways:
        change, run, then = _nearest(ways)
        yield planned(change, run.beside, found.chosen, then)


def _planned(
    change: Change, changed: Context, context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns
) -> Iterator[_Planned]:
    assert found.chosen is not None
    now, then = found.chosen, fit(changed, loaded)
    if then.chosen is None or then.chosen.layout == now.layout or not _trains_as_well(then.chosen, now):
        return
    given_work = now.layout.gpus < min(then.chosen.layout.gpus, context.facts.machines.gpus)
    run = runs.of(changed, then)
    if pays(run, run.now, STATED) and not given_work:
        yield change, run, then.chosen


def _nearest(ways: Sequence[_Planned]) -> _Planned:
    """The first that takes hardly more than the fastest: single keys come before all of them."""
    least = min(run.seconds for _, run, _ in ways)
    return next(way for way in ways if way[1].seconds * WORTH_NAMING <= least)


def _trains_as_well(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same, or the same adapter on the base as it is and not on a quantized one."""
    row, now = other.layout.adapts, chosen.layout.adapts
    unrounded = now.quantized and not row.quantized and row.family == now.family
    alike = replace(chosen, layout=replace(chosen.layout, adaptation=row.name)) if unrounded else chosen
    return trains_alike(other, alike)
