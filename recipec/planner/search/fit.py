"""Fit a stage on the hardware: all acceptable adaptations, the first that has a feasible layout is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.layout import Layout
from recipec.planner.search.all_gpus import next_batch, sequences_for_all, uneven_answers
from recipec.planner.search.bounds import TIE, bounds_of
from recipec.planner.search.candidates import (
    MOSTLY,
    PARTLY,
    Candidate,
    best,
    candidates,
    clearly_faster,
    seconds_per_sequence,
    waiting_share,
)
from recipec.planner.search.context import Context, settle
from recipec.planner.search.global_batch import NOTHING_FITS, WAITS
from recipec.planner.search.known_bad import Refusal, judged
from recipec.planner.search.layouts import layouts
from recipec.planner.search.sequences import training_sequences
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.rules import adaptation as adaptations
from recipec.rules.core import Ledger, beside
from recipec.units import GIB, counted, gib

PLAIN, ONE_MEASURE, TWO_MEASURES, STATES_ON_HOST = EFFORTS = range(4)  # what a layout takes, less first
# Times the time of another training from which the preferred one gives way to it: to the same on another base, and all
# weights to adapters, which compute about a third less; what is beyond that, full fine-tuning waits for. Our decision.
FAR_SLOWER, FAR_SLOWER_IN_FULL = 2.0, 4.0
ENOUGH_STEPS = 100  # with a batch that is larger than the usual one; our decision


class Fit(Struct, frozen=True):
    """What was tried; `chosen` and `ledger` are None when nothing fits."""

    chosen: Candidate | None
    ledger: Ledger | None
    tried: Sequence[Candidate]  # in order of preference, the chosen one among them
    bad: Sequence[Refusal]  # why layouts of the preferred adaptation were left out before they were estimated
    ruled_out: Sequence[Refusal] = ()  # of each adaptation before the chosen one that left none at all, the first
    gave_way: tuple[Candidate, Ledger] | None = None  # what the rules put first, and is far slower than the chosen one


def fit(context: Context, loaded: LoadedRecipe) -> Fit:
    """Estimate every candidate of every acceptable adaptation, and choose; a larger batch comes before GPUs that are
    idle or mostly wait, and before a stage that does not fit, or that no bundle can train, because its batch is too
    small for all GPUs."""
    found = _fit(context, loaded)
    if not _can_be_built(found):
        found = _for_all_gpus(context, found, loaded)
    if found.chosen is None:
        return found
    for batch in _larger_batches(context, found):
        if found.chosen is not None and _idles(found.chosen, context):
            wider = _fit(replace(context, least_batch=batch), loaded)
            found = wider if _gives_work(context, wider, found) else found
    tried = found
    while batch := _less_waiting(context, tried):
        tried = _fit(replace(context, least_batch=batch, batch_short=WAITS), loaded)
        if tried.gave_way is None and not _pays(context, tried, found):
            break
        found = found if tried.gave_way else tried
    return _beside_shared(context, found, loaded)


def _for_all_gpus(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """With enough examples in a global batch for every GPU, where fewer leave no layout that fits."""
    least = sequences_for_all(context)
    names = acceptable_adaptations(context)
    settled = [settle(replace(context, least_batch=least, batch_short=NOTHING_FITS), *names[0])] if names else []
    if not any(least == ledger.decisions["global_batch_size"].value for ledger in settled):
        return found
    wider = _fit(replace(context, least_batch=least, batch_short=NOTHING_FITS), loaded)
    return wider if _can_be_built(wider) or (wider.tried and found.chosen is None) else found


def _can_be_built(found: Fit) -> bool:
    return found.chosen is not None and found.chosen.layout.can_be_built


def own_batch(context: Context, ledger: Ledger, loaded: LoadedRecipe) -> None:
    """Say of a global batch outside the accepted range what recipec plans without it: GPUs have a say in that, too."""
    batch = ledger.decisions["global_batch_size"]
    if not batch.dissent or context.facts.machines.gpus == 1:
        return
    free = {key: wish for key, wish in context.wishes.items() if key != batch.key}
    planned = fit(replace(context, wishes=free), loaded).ledger
    if planned is not None and planned.decisions["adaptation"].value == ledger.decisions["adaptation"].value:
        ledger.decisions[batch.id] = beside(batch, planned.decisions[batch.id])


def _beside_shared(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """The same, with layouts that share layers between ranks tried too, which a plan names where they are faster."""
    if found.chosen is None or found.ledger is None or _effort(found.chosen.layout) != PLAIN:
        return found
    shared = _candidates(context, found.ledger, loaded, [], shared=True)
    return replace(found, tried=[*found.tried, *shared])


def _larger_batches(context: Context, found: Fit) -> list[int]:
    """The next global batch for all GPUs, or the largest accepted one below it, and twice as much, which may pay where
    one sequence for each GPU does not; without those that would give few steps. None where no GPU is idle."""
    if found.chosen is None or found.ledger is None or not _idles(found.chosen, context):
        return []
    value = {id: decision.value for id, decision in found.ledger.decisions.items()}
    accepts, first = found.ledger.decisions["global_batch_size"].accepts, next_batch(context, found.ledger)
    whole = uneven_answers(context, found.ledger) or accepts is None
    wanted = [first, 2 * first] if whole else [min(first, accepts[1]), 2 * first]
    return [batch for batch in wanted if batch <= _most(value)]


def _less_waiting(context: Context, found: Fit) -> int:
    """Twice the global batch, where the rule accepts that and GPUs mostly wait: they do once in a step; else 0."""
    waiting, ledger = found.gave_way or (found.chosen, found.ledger)
    if waiting is None or ledger is None or waiting_share(waiting) <= MOSTLY:
        return 0
    batch = ledger.decisions["global_batch_size"]
    if batch.accepts is None or batch.origin == "recipe" or uneven_answers(context, ledger):
        return 0
    most = min(batch.accepts[1], _most({id: each.value for id, each in ledger.decisions.items()}))
    return 2 * batch.value if 2 * batch.value <= most else 0


def _most(value: Mapping[str, Any]) -> float:
    """The largest global batch with which there are enough steps."""
    return training_sequences(value) * value["passes"] / ENOUGH_STEPS


def _gives_work(context: Context, wider: Fit, found: Fit) -> bool:
    """Whether more GPUs train clearly faster, the same or what the rules would rather have."""
    if not _pays(context, wider, found):
        return False
    return wider.chosen.layout.mesh.world_size > found.chosen.layout.mesh.world_size


def _pays(context: Context, wider: Fit, found: Fit) -> bool:
    """Whether it trains on as many GPUs what the rules would rather have, or the same and clearly faster."""
    if wider.chosen is None or found.chosen is None:
        return False
    then, now = wider.chosen.layout, found.chosen.layout
    names = [name for name, _ in acceptable_adaptations(context)]
    steps = names.index(then.adaptation) - names.index(now.adaptation)
    seconds = seconds_per_sequence(found.chosen) / (1 + TIE)
    as_many = then.mesh.world_size >= now.mesh.world_size and then.on_device and then.can_be_built
    faster = seconds_per_sequence(wider.chosen) < seconds
    return as_many and (steps < 0 or (steps == 0 and faster))


def _fit(context: Context, loaded: LoadedRecipe) -> Fit:
    """The same with the batch that the rule decides."""
    refusals: list[list[Refusal]] = []
    found: list[tuple[Ledger, list[Candidate]]] = []
    beside: list[Candidate] = []
    small: tuple[Ledger, list[Candidate]] | None = None
    for adaptation, because in acceptable_adaptations(context):
        ledger = settle(context, adaptation, because)
        refusals.append([])
        found.append((ledger, _candidates(context, ledger, loaded, refusals[-1])))
    for effort in EFFORTS:
        if effort == ONE_MEASURE:  # nothing plain fits: 8-bit states and then activations on the host are worth a look
            small = _with_small_states(context, loaded, found, _too_large(found))
            chosen = _best_with(PLAIN, small[1]) if small else None
            if small and chosen is not None:
                hosted = _with_activations_on_host(context, loaded, small)
                in_full = _best_with(ONE_MEASURE, hosted)
                if in_full is None or not clearly_faster(in_full, chosen):
                    ledger = _beside_hosted(small[0], in_full, chosen)
                    return Fit(chosen, ledger, [*_all(found), *hosted, *small[1]], refusals[0])
            beside = small[1] if small else []
            for ledger, group in found:
                for on_host, shared in ((True, False), (False, True), (True, True)):
                    group += _candidates(context, ledger, loaded, [], on_host, shared)
        if effort == TWO_MEASURES and (undropped := _without_dropout(context, loaded, found)):
            ledger, tried, chosen = undropped
            return Fit(chosen, ledger, [*_all(found), *tried], refusals[0])
        if effort == STATES_ON_HOST and small:  # with activations there, 8-bit states may stay on the GPUs
            hosted = _candidates(context, small[0], loaded, [], on_host=True)
            if (chosen := _best_with(ONE_MEASURE, hosted)) is not None:
                return Fit(chosen, small[0], [*_all(found), *beside, *hosted], refusals[0])
        for place, (ledger, group) in enumerate(found):
            chosen = _best_with(effort, group)
            if chosen is None:
                continue
            if effort == PLAIN and (_idles(chosen, context) or waiting_share(chosen) > PARTLY):  # others may be faster
                group += _candidates(context, ledger, loaded, [], on_host=True)
                plain, chosen = chosen, _best_with(effort, group) or chosen
                if chosen.layout.offloads or waiting_share(chosen) > MOSTLY:
                    small = _with_small_states(context, loaded, found, _too_slow(plain))
                quick = _best_with(PLAIN, small[1]) if small else None
                if small and quick is not None and clearly_faster(quick, chosen):
                    return Fit(quick, small[0], [*_all(found), *small[1]], refusals[0])
            preferred = _faster(found[:place], chosen)
            quicker = None if preferred else _far_slower(found[place + 1 :], chosen)
            taken = preferred or quicker or (chosen, ledger)
            none_left = [bad[0] for bad, (_, tried) in zip(refusals[:place], found, strict=False) if bad and not tried]
            return Fit(*taken, _all(found), refusals[0], none_left, (chosen, ledger) if quicker else None)
    return Fit(None, None, [*_all(found), *beside], refusals[0] if refusals else [])


def _faster(before: list[tuple[Ledger, list[Candidate]]], chosen: Candidate) -> tuple[Candidate, Ledger] | None:
    """What the rules would rather have, where it takes more effort but is clearly faster all the same."""
    for ledger, group in before:
        found = best([candidate for candidate in group if candidate.layout.can_be_built])
        if found is None:
            continue
        if clearly_faster(found, chosen):
            return found, ledger
    return None


def _far_slower(after: list[tuple[Ledger, list[Candidate]]], chosen: Candidate) -> tuple[Candidate, Ledger] | None:
    """What is next best to the rules and stays on the GPUs, where the choice is far slower than that, or takes more of
    the memory that comes first."""
    for place, (ledger, group) in enumerate(after):
        other = _best_with(PLAIN, group)
        if other is not None and other.layout.on_device and _takes_its_place(other, ledger, chosen):
            return _far_slower(after[place + 1 :], other) or (other, ledger)
    return None


def _takes_its_place(other: Candidate, ledger: Ledger, chosen: Candidate) -> bool:
    return seconds_per_sequence(chosen) > _limit(other, ledger, chosen) * seconds_per_sequence(other)


def _limit(other: Candidate, ledger: Ledger, chosen: Candidate) -> float:
    """Times the time of the other one that the chosen one may take."""
    if chosen.by_memory and other.memory.peak_allocated_bytes < chosen.memory.peak_allocated_bytes:
        return 1 / (1 + TIE)
    if ledger.decisions["priority"].value == "speed":
        return 1 + TIE
    if other.layout.adapts.family == chosen.layout.adapts.family:
        return FAR_SLOWER
    return FAR_SLOWER_IN_FULL if chosen.layout.adapts.trains_all else inf


def _without_dropout(
    context: Context, loaded: LoadedRecipe, found: list[tuple[Ledger, list[Candidate]]]
) -> tuple[Ledger, list[Candidate], Candidate] | None:
    """Adapters that fit without their dropout, where the rules put adapters first: a mask and a copy of each input."""
    if found and found[0][1] and found[0][1][0].layout.adapts.trains_all:
        return None
    for ledger, group in found:
        dropout, given = ledger.decisions.get("lora_dropout"), ledger.decisions["adaptation"]
        if not group or dropout is None or not dropout.value or dropout.origin == "recipe":
            continue
        why = f"with {dropout.value:g} nothing fits: each adapted input then has a mask and a copy"
        changed = settle(replace(context, undropped=why), group[0].layout.adaptation, given.because)
        tried = [*_candidates(context, changed, loaded, []), *_candidates(context, changed, loaded, [], on_host=True)]
        if (chosen := _best_with(ONE_MEASURE, tried)) is not None:
            return changed, tried, chosen
    return None


def _in_full(found: list[tuple[Ledger, list[Candidate]]]) -> Iterator[tuple[Ledger, list[Candidate]]]:
    """The layouts on the GPUs that train all weights, with their ledger."""
    for ledger, group in found:
        on_device = [candidate for candidate in group if candidate.layout.on_device]
        if on_device and on_device[0].layout.adapts.trains_all:
            yield ledger, on_device


def _too_large(found: list[tuple[Ledger, list[Candidate]]]) -> str:
    """Why the states of AdamW are not kept in fp32, where no layout has room for them."""
    needed = min((each.memory.peak_allocated_bytes for _, group in _in_full(found) for each in group), default=0)
    return f"the fp32 states of AdamW do not fit on the GPUs: {needed / GIB:,.1f} GiB allocated"


def _too_slow(plain: Candidate) -> str:
    """The same where the layouts that have room mostly wait."""
    on = f"on {counted(plain.layout.mesh.world_size, 'GPU')}"
    return f"with the fp32 states of AdamW {on}, {waiting_share(plain):.0%} of a step waits for other GPUs"


def _with_small_states(
    context: Context, loaded: LoadedRecipe, found: list[tuple[Ledger, list[Candidate]]], why: str
) -> tuple[Ledger, list[Candidate]] | None:
    """The adaptation that trains all weights with 8-bit optimizer states, where the rules accept it."""
    for ledger, group in _in_full(found):
        given, why = ledger.decisions["adaptation"], f"{why}; 8-bit ones take 2 bytes of 8"
        small = settle(replace(context, small_states=why), group[0].layout.adaptation, given.because)
        if small.decisions["optimizer"].value == ledger.decisions["optimizer"].value:
            return None
        return small, _candidates(context, small, loaded, [])
    return None


def _with_activations_on_host(
    context: Context, loaded: LoadedRecipe, small: tuple[Ledger, list[Candidate]]
) -> list[Candidate]:
    """What trains the same with the fp32 states of AdamW on the GPUs, where its activations wait in host memory."""
    given = small[0].decisions["adaptation"]
    ledger = settle(replace(context, small_states=""), small[1][0].layout.adaptation, given.because)
    return _candidates(context, ledger, loaded, [], on_host=True)


def _beside_hosted(ledger: Ledger, found: Candidate | None, chosen: Candidate) -> Ledger:
    """With what is left of the reason for 8-bit states where fp32 ones fit as well: OPT-002 puts 8-bit ones first."""
    if found is not None:
        decided, ratio = ledger.decisions["optimizer"], seconds_per_sequence(found) / seconds_per_sequence(chosen)
        fits = (
            f"with activations in host memory they fit in {gib(found.memory.peak_allocated_bytes)} at {ratio:.2f}x the"
        )
        because = f"{decided.because}; {fits} time, and recipec takes 8-bit states before data in host memory"
        ledger.decisions[decided.id] = replace(decided, because=because)
    return ledger


def _idles(chosen: Candidate, context: Context) -> bool:
    return chosen.layout.gpus < context.facts.machines.gpus


def _all(found: list[tuple[Ledger, list[Candidate]]]) -> list[Candidate]:
    return [candidate for _, group in found for candidate in group]


def _best_with(effort: int, group: list[Candidate]) -> Candidate | None:
    """The best with no more than `effort`; where there is one, layouts that use host memory may be clearly faster."""
    fitting = [candidate for candidate in group if candidate.fits and _effort(candidate.layout) <= effort]
    if not fitting:
        return None
    hosted = [candidate for candidate in group if not candidate.layout.on_device and candidate.layout.can_be_built]
    return best([*fitting, *hosted])


def _effort(layout: Layout) -> int:
    """Another adaptation comes before spreading layers over ranks or holding activations in host memory, one of these
    before both, and all that before holding states in host memory."""
    if layout.offloads:
        return STATES_ON_HOST
    return (layout.mesh.ranks_per_layer > 1) + layout.activation_offload


def acceptable_adaptations(context: Context) -> list[tuple[str, str]]:
    """The acceptable adaptations in order of preference, each with its reason."""
    given = {id: decision.value for id, decision in context.ledger().decisions.items()}
    names = ("stage", "priority", "new_domain", "first_time", "data_rows", "params", "total_vram_gb", "gpu_is_cpu")
    choice = adaptations.adaptation_preferences(*(given[name] for name in names))
    wish = {key: value.value for key, value in context.wishes.items()}
    allowed = adaptations.wished(
        choice.value,
        METHODS[context.stage.name].adaptations,
        *map(wish.get, ("train.adaptation", "train.quantization")),
    )
    first = choice.value[0]
    return [
        (name, choice.because if name == first else f"{ADAPTATIONS[name].because}; {choice.because}")
        for name in allowed
    ]


def _candidates(
    context: Context,
    ledger: Ledger,
    loaded: LoadedRecipe,
    bad: list[Refusal],
    on_host: bool = False,
    shared: bool = False,
) -> list[Candidate]:
    """The candidates of one adaptation; those that are known to fail are left out and added to `bad`."""
    shape = context.facts.model.architecture
    work = work_of(ledger, context.facts)
    found = list(judged(layouts(ledger, on_host, shared), ledger.decisions, shape, work))
    bad += [refusal for _, refusal in found if refusal is not None]
    allowed = [layout for layout, refusal in found if refusal is None]
    facts, bounds = context.facts, bounds_of(context, ledger, loaded)
    return candidates(allowed, shape, work, facts.gpu, bounds)
