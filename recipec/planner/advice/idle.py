"""What would give idle GPUs work, and what would leave host memory free: each way is planned before it is proposed."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.answering import SERVER_GPUS
from recipec.planner.advice.change import Change, setting
from recipec.planner.advice.changes import unpinned
from recipec.planner.advice.host_memory import waits_for_host, wanted_host_gib, with_room
from recipec.planner.advice.idle_refused import Freed, freed_on_more, refused_on_more
from recipec.planner.advice.keys import told
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds
from recipec.planner.search.all_gpus import next_batch, shared_by_all, uneven_answers
from recipec.planner.search.candidates import Candidate, seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.global_batch import largest_batch
from recipec.planner.search.preference import IDLE_TIE, OFFLOAD_AT_WORST, OFFLOAD_TIE, best
from recipec.planner.search.sequences import settled_method
from recipec.recipe import LoadedRecipe
from recipec.rules.combination import BadCombination
from recipec.rules.core import Wish
from recipec.rules.words import device
from recipec.units import counted, times

_SERVER_GPUS = f"alignment.{SERVER_GPUS.key}"
_ROWS = 2  # that are named as not supported
_BATCHES = 4  # that are tried, each twice the one before


class Idle(Struct, frozen=True):
    """What is said of GPUs that are idle."""

    because: str = ""  # why nothing that fits on more of them was taken
    ways: tuple[str, ...] = ()  # what a recipe may change so that more of them train the same, and faster


def idle_gpus(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Idle:
    """Why GPUs are idle, and what gives them work; empty where none is idle."""
    if found.chosen is None or found.chosen.layout.gpus == context.facts.machines.gpus:
        return Idle()
    freed = freed_on_more(context, found, loaded)
    removal = _removal(context, freed, found.chosen, runs) if freed is not None else ""
    because = _because(context, found, freed.row if freed is not None and removal else None)
    removals = [removal] if removal else _without_a_key(context, found, loaded, runs)
    return Idle(because, (*removals, *_ways(context, found, loaded, runs)))


def _ways(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> tuple[str, ...]:
    assert found.chosen is not None
    return (
        *_more_host_memory(context, found.chosen, found),
        *_more_writers(context, found, loaded, runs),
        *_larger_batch(context, found, loaded, runs),
        *_another_strategy(context, found, loaded, runs),
        *_states_on_host(context, found, loaded, runs),
    )


def _because(context: Context, found: Fit, row: BadCombination | None) -> str:
    """Why nothing that fits on more GPUs was taken; a batch without an example for each has its own reason."""
    assert found.chosen is not None and found.ledger is not None
    noun = device(context.facts.decisions["gpu_is_cpu"].value)
    if uneven := uneven_answers(context, found.ledger):
        return uneven
    if row is not None:
        return f"what is clearly faster on more {noun}s is not supported: {row.title} ({row.id})"
    if _faster_on_host(found, found.chosen):
        return f"what is clearly faster on more {noun}s keeps optimizer states in host memory"
    return f"no layout that fits on more {noun}s is clearly faster{_refused(found, found.chosen)}"


def _refused(found: Fit, chosen: Candidate) -> str:
    """What is not supported on more GPUs, where nothing fits there."""
    alike = [other for other in found.tried if other.fits and other.layout.adapts is chosen.layout.adapts]
    if any(other.layout.mesh.world_size > chosen.layout.mesh.world_size for other in alike):
        return ""
    refused = "; ".join(f"{each.row.title} ({each.row.id})" for each in refused_on_more(found)[:_ROWS])
    return f", and these are not supported: {refused}" if refused else ""


def _removal(context: Context, freed: Freed, chosen: Candidate, runs: WholeRuns) -> str:
    """Without the keys for which a row refuses more GPUs; "" where the whole run is not shorter."""
    then = freed.then.chosen
    if then is None or not _uses_more(then, chosen):
        return ""
    run = runs.of(freed.context, freed.then)
    shorter = run.seconds < runs.now.seconds
    outcome = _outcome(then, chosen)
    return told(context, freed.change, outcome, chosen, then, but=(run.beside,)) if shorter else ""


def _without_a_key(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """Without a value of the recipe that keeps out a layout on more GPUs, where the whole run is clearly shorter."""
    assert found.chosen is not None
    for change, changed in unpinned(context):
        then = fit(changed, loaded)
        if then.chosen is None or not _uses_more(then.chosen, found.chosen):
            continue
        if (run := runs.of(changed, then)).seconds * (1 + IDLE_TIE) < runs.now.seconds:
            outcome = _outcome(then.chosen, found.chosen)
            yield told(context, change, outcome, found.chosen, then.chosen, but=(run.beside,))
            return


def _more_host_memory(context: Context, chosen: Candidate, found: Fit) -> Iterator[str]:
    """Host memory of a node with which a layout on more GPUs would be chosen, where what it has is assumed."""
    fitting = [other for other in found.tried if other.fits]
    wider = best([other for other in fitting if waits_for_host(other) and _uses_more(other, chosen)])
    if wider is None:
        return
    alike = [other for other in fitting if other.layout.adapts is chosen.layout.adapts]
    then = best(with_room([other for other in alike if other.host_bytes <= wider.host_bytes]))
    if then is not None and _uses_more(then, chosen):
        change = setting(hardware__host_memory_gib=wanted_host_gib(then))
        yield told(context, change, _outcome(then, chosen), chosen, then, " if a node has it")


def _more_writers(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """The fewest GPUs of a server beside which no other GPU is idle, where the whole run is then shorter."""
    assert found.chosen is not None and found.ledger is not None
    serve, gpus = found.chosen.layout.served_by, context.facts.machines.gpus
    batch = found.ledger.decisions["global_batch_size"].value
    for more in range(serve + 1, gpus if serve else 0):
        if batch % (gpus - more):
            continue
        changed = replace(context, wishes={**context.wishes, _SERVER_GPUS: Wish(more, "GPUs that would be idle")})
        then = fit(changed, loaded)
        if then.chosen is None or then.chosen.layout.gpus < gpus:
            continue
        if (run := runs.of(changed, then)).seconds < runs.now.seconds:
            effect = f"{counted(gpus - more, 'GPU')} then learn from what {more} write"
            change, but = Change(((_SERVER_GPUS, more),)), (run.beside,)
            yield told(context, change, effect, found.chosen, then.chosen, but=but)
            return


def _larger_batch(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """The smallest accepted global batch with which more GPUs have work, and steps enough are left."""
    assert found.chosen is not None and found.ledger is not None
    accepts = found.ledger.decisions["global_batch_size"].accepts
    first = max(next_batch(context, found.ledger), accepts[0] if accepts else 0)
    if settled_method(found.ledger.decisions).generates:  # of so many answers at a time, ranks have as many each
        first = ceil(first / (unit := shared_by_all(context, found.ledger))) * unit
    most = largest_batch(found.ledger)
    for size in (round(first) * 2**power for power in range(_BATCHES)):
        if size > most:
            return
        wishes = {**context.wishes, "train.global_batch_size": Wish(size, "a larger batch")}
        changed = replace(context, wishes=wishes)
        then = fit(changed, loaded)
        if then.chosen is not None and _uses_more(then.chosen, found.chosen):
            effect = f"{_outcome(then.chosen, found.chosen)} for the same rows"
            change, but = setting(train__global_batch_size=size), (runs.of(changed, then).beside,)
            yield told(context, change, effect, found.chosen, then.chosen, but=but)
            return


def _another_strategy(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """A strategy that uses more GPUs and is faster in the whole run, though the simpler one counted as equal."""
    assert found.chosen is not None
    if "train.strategy" in context.wishes:
        return
    wider = [other for other in found.tried if other.fits and not other.crowds_host]
    wider = [other for other in wider if _uses_more(other, found.chosen)]
    for name in dict.fromkeys(other.layout.strategy for other in sorted(wider, key=seconds_per_sequence)):
        wishes = {**context.wishes, "train.strategy": Wish(name, "another strategy")}
        changed = replace(context, wishes=wishes)
        then = fit(changed, loaded)
        if then.chosen is not None and _uses_more(then.chosen, found.chosen):
            if (run := runs.of(changed, then)).seconds * (1 + IDLE_TIE) < runs.now.seconds:
                near = ", which counts as equal" * (_ratio(then.chosen, found.chosen) * (1 + found.chosen.tie) > 1)
                effect = f"{_outcome(then.chosen, found.chosen)}{near}"
                change, but = setting(train__strategy=name), (run.beside,)
                yield told(context, change, effect, found.chosen, then.chosen, but=but)
            return


def _states_on_host(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[str]:
    """The fastest that keeps states in host memory, which recipec takes by itself only for much of the time."""
    assert found.chosen is not None
    wider = _faster_on_host(found, found.chosen)
    if not wider or {"train.strategy", "train.offload"} & context.wishes.keys():
        return
    layout = min(wider, key=seconds_per_sequence).layout
    change = setting(train__strategy=layout.strategy, train__offload=layout.offload)
    changed = replace(context, wishes={**context.wishes, **{key: Wish(value, "") for key, value in change.sets}})
    then = fit(changed, loaded)
    if then.chosen is not None and _wider(then.chosen, found.chosen):
        but = runs.of(changed, then).beside, MEASURED_ON_HOST
        yield told(context, change, _outcome(then.chosen, found.chosen), found.chosen, then.chosen, but=but)


MEASURED_ON_HOST = (
    f"recipec takes it by itself from {1 + OFFLOAD_TIE:g} times the speed on, as runs with optimizer states in host "
    f"memory were up to {OFFLOAD_AT_WORST:g} times slower than without (DeepSpeed#3901)"
)


def _faster_on_host(found: Fit, chosen: Candidate) -> list[Candidate]:
    """What would be faster by the usual limit, were its states not in host memory."""
    hosted = [other for other in found.tried if other.fits and other.layout.offloads and not other.crowds_host]
    return [other for other in hosted if _wider(other, chosen) and _ratio(other, chosen) * (1 + other.tie) < 1]


def _uses_more(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same on more GPUs, in noticeably less time, with nothing in host memory."""
    return other.layout.on_device and _wider(other, chosen)


def _wider(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same on more GPUs, in noticeably less time, as a bundle can."""
    layout, same = other.layout, other.layout.adapts is chosen.layout.adapts
    more = layout.mesh.world_size > chosen.layout.mesh.world_size
    return same and more and layout.can_be_built and _ratio(other, chosen) * (1 + IDLE_TIE) < 1


def _outcome(then: Candidate, chosen: Candidate) -> str:
    return f"{_on_gpus(then)} then takes {times(_ratio(then, chosen))} to train"


def _on_gpus(then: Candidate) -> str:
    return f"{then.layout.strategy} on {counted(then.layout.mesh.world_size, 'GPU')}"


def _ratio(one: Candidate, other: Candidate) -> float:
    return seconds_per_sequence(one) / seconds_per_sequence(other)


def roomier(context: Context, found: Fit, loaded: LoadedRecipe) -> tuple[str, ...]:
    """What a recipe may leave to recipec so that a plan fits into the host memory of a node."""
    if found.chosen is None or not found.chosen.crowds_host:
        return ()
    for change, changed in unpinned(context):
        tried = fit(changed, loaded)
        then = tried.chosen
        if then is not None and not then.crowds_host and then.layout.can_be_built:
            longer = times(pass_seconds(tried) / pass_seconds(found))
            effect = f"{_on_gpus(then)} then takes {longer} to train, and its host memory is enough"
            return (told(context, change, effect, found.chosen, then),)
    return ()
