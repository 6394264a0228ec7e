"""Fit a stage on the hardware, with the global batch of its rule or a larger one, where that is clearly better."""

from __future__ import annotations

from itertools import chain, count, islice, takewhile
from math import ceil

from msgspec.structs import replace

from recipec.planner.search.all_gpus import sequences_for_all, shared_by_all
from recipec.planner.search.bounds import TIE, bounds_of
from recipec.planner.search.candidates import Candidate, retimed, seconds_per_sequence, with_batch
from recipec.planner.search.context import Context, settle
from recipec.planner.search.global_batch import IDLE, NOTHING_FITS, SLOWER, WAITS, largest_batch
from recipec.planner.search.measures import Fit, acceptable_adaptations, choose, idles
from recipec.planner.search.preference import IDLE_TIE, PARTLY, fastest_of, waiting_share
from recipec.planner.search.sequences import settled_method
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger

ANSWERS = 16  # in a batch for each GPU: the usual 128 on a node of 8; fewer take hardly less time; our decision


def fit(context: Context, loaded: LoadedRecipe) -> Fit:
    """Estimate every candidate of every acceptable adaptation, and choose.

    Where a larger global batch than the rule's may be clearly better, the largest is planned that the rule accepts, and
    of those up to it the smallest is taken that is not clearly slower. Answers are written in little more time where
    they are more, and fewer updates learn otherwise: their batch grows until all GPUs have work, or where these wait.
    """
    usual = choose(context, loaded)

    def planned(batch: int) -> Fit:
        return choose(replace(context, least_batch=batch, batch_short=_short(context, usual)), loaded)

    fits = [usual, *map(planned, _for_all_gpus(context, usual))]
    larger = _larger_batches(context, fits[-1]) if _gains(context, fits[-1], loaded) else []
    if larger and _writes_on_few(context, fits[-1]):
        busy = (each for each in map(planned, larger) if each.chosen and not idles(each.chosen, context))
        fits, larger = [*fits, *islice(busy, 1)], []
    most = [*map(planned, larger[-1:])]
    best = min((*fits, *most), key=lambda each: _merit(context, each))
    upwards = chain(fits, map(planned, larger[:-1]), most)
    found = next(each for each in upwards if _as_good(context, each, best))
    found = _as_fast_together(replace(context, batch_short=_short(context, usual)), found, best, loaded)
    beyond = [each for other in most if other is not found for each in other.tried]
    return _with_own_batch(context, replace(found, larger=beyond), loaded)


def _for_all_gpus(context: Context, found: Fit) -> list[int]:
    """Larger batches that give every GPU work, where some have none, or where fewer examples leave no layout that fits
    or that a bundle can train, with however few steps; of answers also as many for each GPU as is usual."""
    names, trains = acceptable_adaptations(context), _can_be_built(found)
    ledger = settle(context, *names[0]) if names else None
    if ledger is None or ledger.decisions["global_batch_size"].origin == "recipe":
        return []
    batch, unit, most = _batch(ledger), _unit(context, ledger), largest_batch(ledger)
    generates = settled_method(ledger.decisions).generates
    least = [ceil(batch / unit) * unit if trains or generates else sequences_for_all(context)]
    least = least if not trains or (found.chosen and idles(found.chosen, context)) else []
    each = min(ceil(ANSWERS * context.facts.machines.gpus / unit) * unit, int(most) // unit * unit) if generates else 0
    sizes = [*(size for size in least if size <= most or not trains), each]
    return [size for size in dict.fromkeys(sizes) if size > batch]


def _writes_on_few(context: Context, found: Fit) -> bool:
    """Whether a stage writes answers, and GPUs are idle."""
    chosen, ledger = _preferred(found)
    writes = ledger is not None and settled_method(ledger.decisions).generates
    return writes and chosen is not None and idles(chosen, context)


def _short(context: Context, usual: Fit) -> str:
    """What is wrong with the global batch that the rule decides, where a larger one is taken."""
    chosen, _ = _preferred(usual)
    if chosen is None or not chosen.layout.can_be_built:
        return NOTHING_FITS
    if idles(chosen, context):
        return IDLE
    return WAITS if waiting_share(chosen) > PARTLY else SLOWER


def _can_be_built(found: Fit) -> bool:
    return found.chosen is not None and found.chosen.layout.can_be_built


def _as_fast_together(context: Context, found: Fit, best: Fit, loaded: LoadedRecipe) -> Fit:
    """A smaller batch may take as much longer than the best as counts as equal, and so may a simpler layout: not both
    in turn, so that what the batch takes is left to it."""
    chosen, ledger = _preferred(found)
    if chosen is None or ledger is None or best.chosen is None:
        return found
    slower = _seconds(context, found) / _seconds(context, best)
    if slower <= 1 or seconds_per_sequence(chosen) <= (1 + TIE) * _seconds(context, best):
        return found
    again = replace(context, slower=slower)
    if ledger.decisions["global_batch_size"].origin == "planner":
        again = replace(again, least_batch=_batch(ledger))
    return choose(again, loaded)


def _batch(ledger: Ledger) -> int:
    return int(ledger.decisions["global_batch_size"].value)


def _preferred(found: Fit) -> tuple[Candidate | None, Ledger | None]:
    """What the rules would rather have: the choice, or what gave way to it."""
    return found.gave_way or (found.chosen, found.ledger)


def _gains(context: Context, found: Fit, loaded: LoadedRecipe) -> bool:
    """Whether GPUs are idle, or the choice, or the fastest that trains the same, would be clearly faster with the
    largest batch, were there memory for all of a rank's share at once; on one GPU by what a step takes once alone.
    """
    chosen, ledger = _preferred(found)
    if chosen is None or ledger is None:
        return False
    if idles(chosen, context):
        return True
    if settled_method(ledger.decisions).generates and waiting_share(chosen) <= PARTLY:
        return False
    most, fastest = int(largest_batch(ledger)), _fastest(context, found)
    shared = most if context.facts.machines.gpus > 1 else 0
    grown = [
        replace(chosen, layout=with_batch(layout, size, most))
        for layout in (each.layout for each in (chosen, fastest) if most > each.layout.global_batch)
        for size in {layout.micro_batch, max(layout.micro_batch, shared // layout.mesh.data_parallel)}
    ]
    timed = retimed(grown, context.facts, bounds_of(context, ledger, loaded))
    return any(seconds_per_sequence(each) * (1 + TIE) < seconds_per_sequence(fastest) for each in timed)


def _fastest(context: Context, found: Fit) -> Candidate:
    """What tells how fast a batch is: not the choice, which may be simpler and slower within what counts as equal,
    unless it leaves GPUs idle."""
    chosen, _ = _preferred(found)
    assert chosen is not None
    alike = [each for each in found.tried if each.layout.adaptation == chosen.layout.adaptation]
    return chosen if idles(chosen, context) else fastest_of(alike) or chosen


def _larger_batches(context: Context, found: Fit) -> list[int]:
    """The global batches up to the largest that all GPUs can share, each twice the one before."""
    chosen, ledger = _preferred(found)
    if chosen is None or ledger is None or ledger.decisions["global_batch_size"].origin == "recipe":
        return []
    if idles(chosen, context):  # with more examples it may train what the rules put first
        ledger = settle(context, *acceptable_adaptations(context)[0])
    batch, most, unit = _batch(ledger), int(largest_batch(ledger)), _unit(context, ledger)
    first, last = batch + -batch % unit, most - most % unit if settled_method(ledger.decisions).generates else most
    doubled = takewhile(lambda size: size < last, (first << doublings for doublings in count()))
    return sorted(size for size in {*doubled, last} if batch < size <= most)


def _unit(context: Context, ledger: Ledger) -> int:
    """What a batch is a multiple of that all GPUs can share. Examples that no micro batch divides are nearly as many;
    answers are written in whole ones."""
    if not settled_method(ledger.decisions).generates:
        free = {key: wish for key, wish in context.wishes.items() if key != "train.micro_batch_size"}
        context = replace(context, wishes=free)
    return shared_by_all(context, ledger)


def _seconds(context: Context, found: Fit) -> float:
    return seconds_per_sequence(_fastest(context, found))


def _merit(context: Context, found: Fit) -> tuple[bool | int | float, ...]:
    """What makes a plan better than one with another batch, the smaller the better."""
    chosen, _ = _preferred(found)
    return (True,) if chosen is None else (False, *_standing(context, chosen), _seconds(context, found))


def _as_good(context: Context, found: Fit, best: Fit) -> bool:
    """Whether it trains what the best does and is not clearly slower; with idle GPUs, where the best has
    none, not slower than work for them is worth."""
    (own, _), (other, _) = _preferred(found), _preferred(best)
    if own is None or other is None:
        return other is None
    tie = IDLE_TIE if idles(own, context) and not idles(other, context) else TIE
    slower = _seconds(context, found) > (1 + tie) * _seconds(context, best)
    return _standing(context, own) <= _standing(context, other) and not slower


def _standing(context: Context, chosen: Candidate) -> tuple[bool, int]:
    """What counts before the time, the smaller the better."""
    layout, names = chosen.layout, [name for name, _ in acceptable_adaptations(context)]
    return not layout.can_be_built, names.index(layout.adaptation)


def _with_own_batch(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """What took the place of the adaptation that the rules put first, with the global batch that it has where the
    recipe asks for it."""
    names = [name for name, _ in acceptable_adaptations(context)]
    if found.chosen is None or found.chosen.layout.adaptation == names[0]:
        return found
    taken = found.chosen.layout.adaptation
    own = fit(replace(context, only=taken), loaded)
    if own.chosen is None:
        return found
    tried = [*(each for each in found.tried if each.layout.adaptation != taken), *own.tried]
    tried.sort(key=lambda each: names.index(each.layout.adaptation))
    return replace(found, chosen=own.chosen, ledger=own.ledger, tried=tried, larger=own.larger)
