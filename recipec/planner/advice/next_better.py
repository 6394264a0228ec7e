"""What it would take to train more of the model, or to keep its states on the GPUs: a key, memory, or more GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS, Adaptation
from recipec.estimate.memory import MemoryEstimate, step_memory
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.planner.advice.change import Change, Proposal, asking_for, planned
from recipec.planner.advice.changes import more_gpus, more_nodes, within
from recipec.planner.advice.ways_out import buildable, fits_in, fitting
from recipec.planner.advice.whole_runs import WholeRuns
from recipec.planner.plan import NextBetter
from recipec.planner.search.candidates import Candidate, gpu_gib, seconds_per_sequence, usable_bytes, with_batch
from recipec.planner.search.context import EIGHT_BIT, Context, settle
from recipec.planner.search.fit import Fit
from recipec.planner.search.known_bad import judged
from recipec.planner.search.layouts import layouts
from recipec.planner.search.names import adaptation_name, family_of
from recipec.planner.search.preference import by_preference
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish
from recipec.units import times

_SMALL = "the least memory that it takes"


def next_better(
    context: Context, chosen: Candidate, tried: Sequence[Candidate], loaded: LoadedRecipe
) -> NextBetter | None:
    """The next rung above `chosen`; None where the present GPUs hold it, the recipe fixes the adaptation or there is
    none."""
    found = _not_taken(context, chosen, tried)
    if found is None or _fits(context, *found[1]):
        return None
    rung, now = found
    stage = context.stage.name
    family = family_of(stage, now[0])
    needs = gpu_gib(context.facts.gpu, now[1].peak_allocated_bytes, now[0].mesh.world_size)
    name = adaptation_name(stage, now[0])
    same, asks = name == chosen.adaptation, _asks(rung, name, chosen, tried)
    tried_so = any(other.layout.adapts is rung and other.fits for other in tried)
    hosted = tried_so or _hosted(context, rung, chosen, loaded)  # it fits, but not on the GPUs alone
    states = " and 8-bit optimizer states" if now[0].optimizer == EIGHT_BIT != chosen.layout.optimizer else ""
    what = "nothing in host memory" if same else f"{name} with nothing in host memory" if hosted else name
    what += states if hosted or same else states.replace(" and", " with")
    wider = [*more_gpus(context), *(() if same else more_nodes(context))]  # a network would undo it
    for change, changed in wider if wider and _holds(wider[-1][1], rung) else ():  # if the largest does not, none does
        found = _holds(changed, rung)
        if found is None or not within(changed, loaded.recipe.policy):
            continue
        if (asked := _asks_there(changed, rung, asks, chosen, loaded)) is not None:
            return NextBetter(what, family, needs, change.lines, asked)
    return NextBetter(what, family, needs, None, asks)


def on_present_gpus(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The keys with which the present GPUs hold the next rung above the plan's, of which no layout was tried that fits:
    the rules take 8-bit optimizer states only where nothing fits without.
    """
    assert found.chosen is not None
    chosen, above = found.chosen, _not_taken(context, found.chosen, found.tried)
    if above is None or not _fits(context, *above[1]):
        return
    change = _asking_for(*above, chosen)
    wishes = {**context.wishes, **{key: Wish(value, "an option") for key, value in change.sets}}
    changed = replace(context, wishes=wishes)
    fitted = fitting(changed, loaded)
    then = fitted.chosen if fitted is not None else None
    if fitted is None or then is None or not _on(then, above[0]) or then.crowds_host:
        return
    ratio = seconds_per_sequence(then) / seconds_per_sequence(chosen)
    effect = f"{fits_in(then)} with nothing in host memory, and an example takes {times(ratio)}"
    yield planned(change, effect, chosen, then, but=(runs.of(changed, fitted).beside,))


def _asking_for(rung: Adaptation, now: tuple[Layout, MemoryEstimate], chosen: Candidate) -> Change:
    """The lines of [train] for a rung with the optimizer of its smallest layout."""
    states = (("train.optimizer", now[0].optimizer),) if now[0].optimizer != chosen.layout.optimizer else ()
    return Change((*asking_for(rung, chosen.layout.adapts).sets, *states))


def _not_taken(
    context: Context, chosen: Candidate, tried: Sequence[Candidate]
) -> tuple[Adaptation, tuple[Layout, MemoryEstimate]] | None:
    """The next rung with its layout that takes least memory; None where one that was tried fits on the GPUs alone."""
    rung = _next_rung(context, chosen.layout)
    if rung is None or any(_on(other, rung) and other.fits for other in tried):
        return None
    least = _least(context, rung)
    return None if least is None else (rung, least)


def _hosted(context: Context, rung: Adaptation, chosen: Candidate, loaded: LoadedRecipe) -> bool:
    """Whether the same adapter on a base that is not quantized fits with data in host memory, which is not tried where
    the quantized one fits without."""
    if rung.family != chosen.layout.adapts.family or rung is chosen.layout.adapts:
        return False
    base = {"train.quantization": Wish(rung.base, "the next rung")}
    then = buildable(replace(context, wishes={**context.wishes, **base}), loaded)
    return then is not None and then.layout.adapts is rung


def _asks(rung: Adaptation, name: str, chosen: Candidate, tried: Sequence[Candidate]) -> str:
    """What the recipe has to say for a rung that the rules do not put before the present one."""
    order = by_preference(tried)
    return "" if name in order[: order.index(chosen.adaptation) + 1] else asking_for(rung, chosen.layout.adapts).told


def _asks_there(changed: Context, rung: Adaptation, asks: str, chosen: Candidate, loaded: LoadedRecipe) -> str | None:
    """What the recipe has to say for a rung on other GPUs, whose plan may prefer another one even so; None where that
    plan does not train it either."""
    if not asks and _trains(changed, rung, loaded):
        return ""
    change = asking_for(rung, chosen.layout.adapts)
    asked = {key: Wish(value, "the next rung") for key, value in change.sets}
    there = replace(changed, wishes={**changed.wishes, **asked})
    return change.told if change.sets and _trains(there, rung, loaded) else None


def _trains(context: Context, rung: Adaptation, loaded: LoadedRecipe) -> bool:
    then = buildable(context, loaded)
    return then is not None and _on(then, rung)


def _next_rung(context: Context, layout: Layout) -> Adaptation | None:
    """Without offload what is offloaded now; otherwise more of the model, as far as method and recipe allow it."""
    if not layout.on_device:
        return None if {"train.offload", "train.activation_offload"} & context.wishes.keys() else layout.adapts
    above, family = layout.adapts.above, context.wishes.get("train.adaptation")
    if above not in METHODS[context.stage.name].adaptations or "train.quantization" in context.wishes:
        return None
    return ADAPTATIONS[above] if family is None or family.value == ADAPTATIONS[above].family else None


def _on(candidate: Candidate, rung: Adaptation) -> bool:
    return candidate.layout.adapts is rung and candidate.layout.on_device


def _least(context: Context, rung: Adaptation) -> tuple[Layout, MemoryEstimate] | None:
    """The layout of a rung that takes least memory, nothing offloaded; of all weights also with 8-bit states."""
    usual = replace(context, small_states=""), replace(context, small_states=_SMALL)
    found = [_least_of(each, rung) for each in usual[: 1 + rung.trains_all]]
    return min((pair for pair in found if pair), key=lambda pair: pair[1].peak_allocated_bytes, default=None)


def _least_of(context: Context, rung: Adaptation) -> tuple[Layout, MemoryEstimate] | None:
    ledger, shape = settle(context, rung.name, ""), context.facts.model.architecture
    work = work_of(ledger, context.facts)
    plain = [layout for layout in layouts(ledger) if layout.on_device and layout.can_be_built]
    every = min((layout.recompute_every for layout in plain), default=1)  # fewer recomputed layers never take less
    dense = [layout for layout in plain if layout.recompute_every == every]
    allowed = [layout for layout, refusal in judged(dense, ledger.decisions, shape, work) if refusal is None]
    batch = ledger.decisions["global_batch_size"].value
    split = [
        with_batch(layout, size, batch) for layout in allowed for size in _micro_batches(context, work, layout, batch)
    ]
    found = [(layout, step_memory(shape, layout, work)) for layout in split]
    return min(found, key=lambda pair: pair[1].peak_allocated_bytes, default=None)


def _micro_batches(context: Context, work: Workload, layout: Layout, global_batch: int) -> tuple[int, ...]:
    """As few sequences as the method can learn from, or all at once, which keeps no gradients between micro steps."""
    fixed = context.wishes.get("train.micro_batch_size")
    least = work.method.least_micro_batch
    return (fixed.value,) if fixed else (least, max(least, global_batch // layout.mesh.data_parallel))


def _holds(context: Context, rung: Adaptation) -> Layout | None:
    """The layout of a rung that takes least memory, where the GPUs hold it."""
    found = _least(context, rung)
    return found[0] if found is not None and _fits(context, *found) else None


def _fits(context: Context, layout: Layout, memory: MemoryEstimate) -> bool:
    return memory.peak_allocated_bytes <= usable_bytes(context.facts.gpu, layout.mesh.world_size)
