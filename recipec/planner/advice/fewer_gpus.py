"""Fewer GPUs that train the same for clearly less money: all GPUs of a recipe are paid for as long as it trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec.structs import asdict

from recipec.layout import Machines
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds, smaller, trains_alike
from recipec.planner.search.candidates import seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.preference import best
from recipec.recipe import LoadedRecipe
from recipec.units import times

CHEAPER = 0.9  # of the cost, where it takes longer; our decision
LITTLE_GAIN = 1.5  # times as fast: what more GPUs must gain, or the plan says what fewer cost; our decision
_PLANNED = 2  # of those that look cheaper


def fewer_gpus(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The fastest of what costs clearly less, and the fewest GPUs beside which all of them gain little."""
    assert found.chosen is not None
    machines = context.facts.machines
    if found.chosen.layout.gpus < machines.gpus:
        return  # that some are idle is told with its way out
    served_by = found.chosen.layout.served_by
    fewer_machines = smaller(machines, context.facts.gpu.measured is not None)
    promising = [fewer for fewer in _promising(machines, fewer_machines, found) if fewer.gpus_per_node > served_by]
    named = next(filter(None, (_cheaper(context, found, loaded, fewer) for fewer in promising[:_PLANNED])), None)
    if named is None:
        return
    least = _least(context, found, loaded, [fewer for fewer in promising if fewer.gpus < named[0].gpus])
    for fewer, then in filter(None, (least, named)):
        ratio, run = pass_seconds(then) / pass_seconds(found), runs.of_all(on_machines(context, fewer), then)
        if run.usd is not None and run.now.usd is not None and run.usd > run.now.usd:
            continue  # other stages run on them as well
        effect = f"training takes {times(ratio)} at {ratio * fewer.gpus / machines.gpus:.2f}x the cost"
        but = *_little_gain(machines, fewer, ratio), run.beside
        yield planned(_change(fewer, machines), effect, found.chosen, then.chosen, but=but)


def _little_gain(machines: Machines, fewer: Machines, ratio: float) -> tuple[str, ...]:
    """That many more GPUs are hardly faster, where they are at all."""
    if ratio >= LITTLE_GAIN or fewer.gpus * LITTLE_GAIN >= machines.gpus or times(ratio) == times(1):
        return ()
    return (f"{machines.gpus} GPUs are only {ratio:.1f} times as fast as {fewer.gpus}",)


def _least(
    context: Context, found: Fit, loaded: LoadedRecipe, smaller: Sequence[Machines]
) -> tuple[Machines, Fit] | None:
    """The fewest of them beside which all GPUs gain little."""
    for fewer in sorted(smaller, key=lambda each: each.gpus)[:_PLANNED]:
        then = _cheaper(context, found, loaded, fewer)
        if then is not None and pass_seconds(then[1]) < LITTLE_GAIN * pass_seconds(found):
            return then
    return None


def _cheaper(context: Context, found: Fit, loaded: LoadedRecipe, fewer: Machines) -> tuple[Machines, Fit] | None:
    """The plan on fewer GPUs, where it trains the same at clearly less cost."""
    assert found.chosen is not None
    then = fit(on_machines(context, fewer), loaded)
    if then.chosen is None or not trains_alike(then.chosen, found.chosen):
        return None
    cost = pass_seconds(then) / pass_seconds(found) * fewer.gpus / context.facts.machines.gpus
    return (fewer, then) if cost <= CHEAPER else None


def _promising(machines: Machines, fewer_machines: Sequence[Machines], found: Fit) -> list[Machines]:
    """Fewer nodes or GPUs on which a layout that was tried costs clearly less, the fastest first."""
    assert found.chosen is not None
    chosen, ratios = found.chosen, {}
    alike = [other for other in found.tried if trains_alike(other, chosen)]
    tried = {other.layout.mesh.world_size for other in alike}
    for fewer in (each for each in fewer_machines if each.gpus in tried):
        other = best([each for each in alike if each.layout.mesh.world_size == fewer.gpus])
        ratio = seconds_per_sequence(other) / seconds_per_sequence(chosen) if other is not None else inf
        if ratio * fewer.gpus / machines.gpus <= CHEAPER:
            ratios[fewer] = ratio
    return sorted(ratios, key=ratios.__getitem__)


def _change(fewer: Machines, now: Machines) -> Change:
    """The lines of [hardware] that change."""
    changed = ((f"hardware.{name}", count) for name, count in asdict(fewer).items() if count < getattr(now, name))
    return Change(tuple(changed))
