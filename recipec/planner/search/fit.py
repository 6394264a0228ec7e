"""Fit a stage on the hardware, with the global batch of its rule or a larger one, where GPUs need it."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.planner.search.all_gpus import next_batch, sequences_for_all, uneven_answers
from recipec.planner.search.bounds import TIE
from recipec.planner.search.candidates import (
    PARTLY,
    seconds_per_sequence,
    waiting_share,
)
from recipec.planner.search.context import Context, settle
from recipec.planner.search.global_batch import IDLE, NOTHING_FITS, WAITS
from recipec.planner.search.measures import Fit, acceptable_adaptations, beside_shared, idles, with_batch
from recipec.planner.search.sequences import training_sequences
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger, beside

ENOUGH_STEPS = 100  # with a batch that is larger than the usual one; our decision


def fit(context: Context, loaded: LoadedRecipe) -> Fit:
    """Estimate every candidate of every acceptable adaptation, and choose; a larger batch comes before GPUs that are
    idle or wait, and before a stage that does not fit, or that no bundle can train, because its batch is too
    small for all GPUs."""
    first = found = with_batch(context, loaded)
    if not _can_be_built(found):
        found = _for_all_gpus(context, found, loaded)
    if found.chosen is None:
        return found
    short = IDLE if idles(found.chosen, context) else WAITS  # what is wrong with the batch that the rule decides
    short = short if found is first else NOTHING_FITS
    for batch in _larger_batches(context, found):
        if found.chosen is not None and idles(found.chosen, context):
            wider = with_batch(replace(context, least_batch=batch, batch_short=short), loaded)
            found = wider if _gives_work(context, wider, found) else found
    tried = found
    while batch := _less_waiting(context, tried):
        tried = with_batch(replace(context, least_batch=batch, batch_short=short), loaded)
        if tried.gave_way is None and _pays(context, tried, found):
            found = tried
        elif found.gave_way is None:
            break
    return beside_shared(context, found, loaded)


def _for_all_gpus(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """With enough examples in a global batch for every GPU, where fewer leave no layout that fits."""
    least = sequences_for_all(context)
    names = acceptable_adaptations(context)
    settled = [settle(replace(context, least_batch=least, batch_short=NOTHING_FITS), *names[0])] if names else []
    if not any(least == ledger.decisions["global_batch_size"].value for ledger in settled):
        return found
    wider = with_batch(replace(context, least_batch=least, batch_short=NOTHING_FITS), loaded)
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


def _larger_batches(context: Context, found: Fit) -> list[int]:
    """The next global batch for all GPUs, or the largest accepted one below it, and twice as much, which may pay where
    one sequence for each GPU does not; without those that would give few steps. None where no GPU is idle."""
    if found.chosen is None or found.ledger is None or not idles(found.chosen, context):
        return []
    accepts, first = found.ledger.decisions["global_batch_size"].accepts, next_batch(context, found.ledger)
    whole = uneven_answers(context, found.ledger) or accepts is None
    wanted = [first, 2 * first] if whole else [min(first, accepts[1]), 2 * first]
    return [batch for batch in wanted if batch <= largest_batch(found.ledger)]


def _less_waiting(context: Context, found: Fit) -> int:
    """Twice the global batch, or the largest that the rule accepts, where GPUs wait, which they do once in a step; else
    0. Where a preferred training gave way, they may be idle with it, too."""
    waiting, ledger = found.gave_way or (found.chosen, found.ledger)
    idle = found.gave_way is not None and idles(found.gave_way[0], context)
    if waiting is None or ledger is None or not (idle or waiting_share(waiting) > PARTLY):
        return 0
    batch = ledger.decisions["global_batch_size"]
    if batch.accepts is None or batch.origin == "recipe" or uneven_answers(context, ledger):
        return 0
    most = min(batch.accepts[1], largest_batch(ledger))
    larger = min(2 * batch.value, int(most))
    return larger if larger >= (1 + TIE) * batch.value else 0


def largest_batch(ledger: Ledger) -> float:
    """The largest global batch with which there are enough steps."""
    value = {id: each.value for id, each in ledger.decisions.items()}
    return training_sequences(value) * value["passes"] / ENOUGH_STEPS


def _gives_work(context: Context, wider: Fit, found: Fit) -> bool:
    """Whether it pays, and more GPUs train."""
    ranks = [0 if each.chosen is None else each.chosen.layout.mesh.world_size for each in (found, wider)]
    return ranks[0] < ranks[1] and _pays(context, wider, found)


def _pays(context: Context, wider: Fit, found: Fit) -> bool:
    """Whether it trains on as many GPUs what the rules would rather have, or the same and clearly faster."""
    if wider.chosen is None or found.chosen is None:
        return False
    then, now = wider.chosen.layout, found.chosen.layout
    names = [name for name, _ in acceptable_adaptations(context)]
    steps = names.index(then.adaptation) - names.index(now.adaptation)
    seconds = seconds_per_sequence(found.chosen) / (1 + TIE)
    as_many = then.mesh.world_size >= now.mesh.world_size and not then.offloads and then.can_be_built
    faster = seconds_per_sequence(wider.chosen) < seconds
    return as_many and (steps < 0 or (steps == 0 and faster))
