"""8-bit optimizer states: what they give where memory limits a plan, and how little memory a plan leaves."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.catalog.gpus import Gpu
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.changes import smaller_states
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds, same_adaptation
from recipec.planner.search.candidates import Candidate, usable_bytes
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.units import GIB, gib, times, unlike_gib

WORTH_NAMING = 0.95  # of the time: less is within what the estimates can tell; our decision
LITTLE_SHARE, LITTLE_BYTES = 0.02, GIB // 4  # of the usable memory: what is left; our decision
WITH_DISPLAY = ("consumer", "workstation")  # kinds of GPUs that may also draw a screen
_KEPT = "recipec keeps the states of AdamW in full where they fit (OPT-002)"


def in_8_bits(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """A plan with 8-bit states, where memory limits the present one: faster, or with more memory left."""
    assert found.chosen is not None and found.ledger is not None
    if not _limited(context, found.chosen) or found.ledger.decisions["optimizer"].value != "adamw":
        return
    alike = replace(context, wishes=same_adaptation(context, found))
    for change, changed in smaller_states(alike):
        then = fit(changed, loaded)
        if then.chosen is not None and _same(then.chosen, found.chosen):
            yield from _told(context, change, changed, found, then, runs)


def _told(
    context: Context, change: Change, changed: Context, found: Fit, then: Fit, runs: WholeRuns
) -> Iterator[Proposal]:
    assert found.chosen is not None and then.chosen is not None
    ratio = pass_seconds(then) / pass_seconds(found)
    now, less = (each.memory.peak_allocated_bytes for each in (found.chosen, then.chosen))
    if ratio <= WORTH_NAMING:
        how = f"{then.chosen.layout.strategy} with a micro batch of {then.chosen.layout.micro_batch}"
        effect = f"{how} then fits in {gib(less)}, and training takes {ratio:.2f}x the time"
        yield planned(change, effect, found.chosen, then.chosen, but=(runs.of(changed, then).beside, _KEPT))
    elif little_left(context.facts.gpu, found.chosen) and now - less >= LITTLE_SHARE * now:
        needs, instead = unlike_gib(less, now)
        effect = f"training then allocates {needs} instead of {instead}, and takes {times(ratio)}"
        yield planned(change, effect, found.chosen, then.chosen, but=(_KEPT,))


def _limited(context: Context, chosen: Candidate) -> bool:
    """Whether a plan does what only a lack of memory makes it do, so that smaller states may change it."""
    layout, idle = chosen.layout, chosen.layout.gpus < context.facts.machines.gpus
    return layout.checkpointing or not layout.on_device or idle or little_left(context.facts.gpu, chosen)


def little_left(gpu: Gpu, chosen: Candidate) -> bool:
    """Whether a plan leaves almost none of the memory that it may use."""
    usable = usable_bytes(gpu, chosen.layout.mesh.world_size)
    return usable - chosen.memory.peak_allocated_bytes < max(LITTLE_SHARE * usable, LITTLE_BYTES)


def tight(gpu: Gpu, chosen: Candidate) -> str:
    """What a plan says that fills a GPU which may also draw a screen; empty where there is room."""
    if gpu.kind not in WITH_DISPLAY or not little_left(gpu, chosen):
        return ""
    left = gib(max(0, usable_bytes(gpu, chosen.layout.mesh.world_size) - chosen.memory.peak_allocated_bytes))
    return (
        f"only {left} of the usable memory is left: a screen or another program on the GPU may take what training "
        "needs; close other programs, or set `data.max_length` lower"
    )


def _same(other: Candidate, chosen: Candidate) -> bool:
    return other.layout.adapts is chosen.layout.adapts and other.layout.can_be_built and not other.crowds_host
