"""A layout that counts as equally fast, and saves money worth telling all the same."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.planner.advice.change import Proposal, planned, setting
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds, same_adaptation, trains_alike
from recipec.planner.search.candidates import seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish
from recipec.units import GIB

WORTH_USD, WORTH_SHARE = 5.0, 0.05  # that a whole run saves at least; our decision


def faster_layout(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The fastest strategy, where the plan takes a simpler one and the whole run would cost clearly less."""
    assert found.chosen is not None
    alike = [other for other in found.tried if trains_alike(other, found.chosen) and not other.crowds_host]
    fastest = min(alike, key=seconds_per_sequence, default=found.chosen)
    saved = 1 - seconds_per_sequence(fastest) / seconds_per_sequence(found.chosen)
    usd = runs.now.usd
    if usd is None or "train.strategy" in context.wishes or not _worth(saved * usd, usd):
        return
    strategy = fastest.layout.strategy
    wishes = {**same_adaptation(context, found), "train.strategy": Wish(strategy, "an option")}
    changed = replace(context, wishes=wishes)
    then = fit(changed, loaded)
    if then.chosen is None or not trains_alike(then.chosen, found.chosen):
        return
    run = runs.of(changed, then)
    if run.usd is not None and _worth(usd - run.usd, usd):
        ratio, peak = pass_seconds(then) / pass_seconds(found), then.chosen.memory.peak_allocated_bytes / GIB
        effect = f"training takes {ratio:.2f}x the time in {peak:.1f} GiB"
        equal = f"recipec takes the simpler layout, as times within {found.chosen.tie_told} count as equal"
        change, but = setting(train__strategy=strategy), (run.beside, equal)
        yield planned(change, effect, found.chosen, then.chosen, but=but)


def _worth(saved_usd: float, usd: float) -> bool:
    return saved_usd >= max(WORTH_USD, WORTH_SHARE * usd)
