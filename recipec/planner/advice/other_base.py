"""A quantized base, where the same adapter on it trains faster and takes less memory than on the base as it is."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.planner.advice.change import Proposal, asking_for, planned
from recipec.planner.advice.ways_out import fits_in
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds
from recipec.planner.search.candidates import Candidate, seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

WORTH_NAMING = 0.95  # of the time: less is within what the estimates can tell; our decision
_ROUNDED = "a quantized base is rounded, and recipec takes the base as it is where it fits (ADPT-001)"


def quantized_base(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The fastest of the quantized bases that were tried, where the recipe leaves the base open."""
    assert found.chosen is not None
    chosen = found.chosen
    better = [other for other in found.tried if _below(other, chosen) and _better(other, chosen)]
    if not better or "train.quantization" in context.wishes:
        return
    row = min(better, key=seconds_per_sequence).layout.adapts
    change = asking_for(row, chosen.layout.adapts)
    wishes = {**context.wishes, **{key: Wish(value, "an option") for key, value in change.sets}}
    changed = replace(context, wishes=wishes)
    then = fit(changed, loaded)
    if then.chosen is None or then.chosen.layout.adapts is not row or not _better(then.chosen, chosen):
        return
    effect = f"{fits_in(then.chosen)}, and training takes {pass_seconds(then) / pass_seconds(found):.2f}x the time"
    yield planned(change, effect, chosen, then.chosen, but=(runs.of(changed, then).beside, _ROUNDED))


def _below(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same adapter on a base in fewer bits."""
    row, now = other.layout.adapts, chosen.layout.adapts
    return row.quantized and not now.quantized and not now.trains_all and row.family == now.family


def _better(other: Candidate, chosen: Candidate) -> bool:
    """Whether it is clearly faster, with less memory, and a bundle can have it without host memory."""
    if not other.fits or not other.layout.can_be_built or not other.layout.on_device or other.crowds_host:
        return False
    faster = seconds_per_sequence(other) <= WORTH_NAMING * seconds_per_sequence(chosen)
    return faster and other.memory.peak_allocated_bytes < chosen.memory.peak_allocated_bytes
