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
    tried = found
    for batch in _larger_batches(context, found):
        if found.chosen is not None and idles(found.chosen, context):
            tried = with_batch(replace(context, least_batch=batch, batch_short=short), loaded)
            found = tried if _gives_work(context, tried, found) else found
    while batch := _next_batch(context, tried):
        tried = with_batch(replace(context, least_batch=batch, batch_short=short), loaded)
        if tried.gave_way is None and _pays(context, tried, found):
            found = tried
        elif found.gave_way is None:
            break
    return beside_shared(context, found, loaded)


def _for_all_gpus(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """With enough examples in a global batch for every GPU, where fewer leave no layout that fits."""
    names = acceptable_adaptations(context)
    if not names:
        return found
    usual = settle(context, *names[0])
    least = next_batch(context, usual) if uneven_answers(context, usual) else sequences_for_all(context)
    larger = replace(context, least_batch=least, batch_short=NOTHING_FITS)
    if settle(larger, *names[0]).decisions["global_batch_size"].value != least:
        return found
    wider = with_batch(larger, loaded)
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
    first = next_batch(context, found.ledger)
    wanted, most = [first, 2 * first], largest_batch(found.ledger)
    if not uneven_answers(context, found.ledger):
        wanted[0] = int(min(first, most))
    return [batch for batch in wanted if batch <= most]


def _next_batch(context: Context, found: Fit) -> int:
    """Twice the global batch, or the largest accepted one, where GPUs are idle or wait, which they do once in a step;
    else 0. What gave way counts where a preferred training did."""
    preferred, ledger = found.gave_way or (found.chosen, found.ledger)
    if preferred is None or ledger is None or not (idles(preferred, context) or waiting_share(preferred) > PARTLY):
        return 0
    batch = ledger.decisions["global_batch_size"]
    if batch.origin == "recipe":
        return 0
    larger = int(min(2 * batch.value, largest_batch(ledger)))
    return larger if larger >= (1 + TIE) * batch.value else 0


def largest_batch(ledger: Ledger) -> float:
    """The largest global batch that its rule accepts, and with which there are enough steps; 0 where it accepts none
    but its own."""
    value = {id: each.value for id, each in ledger.decisions.items()}
    accepts = ledger.decisions["global_batch_size"].accepts
    return min(accepts[1], training_sequences(value) * value["passes"] / ENOUGH_STEPS) if accepts else 0


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
    as_many = then.mesh.world_size >= now.mesh.world_size and then.offloads <= now.offloads and then.can_be_built
    faster = seconds_per_sequence(wider.chosen) < seconds
    return as_many and (steps < 0 or (steps == 0 and faster))
