"""Fit a stage on the hardware, with the global batch of its rule or a larger one, where GPUs need it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from recipec.planner.search.all_gpus import next_batch, sequences_for_all, uneven_answers
from recipec.planner.search.bounds import NEAR, TIE
from recipec.planner.search.candidates import (
    PARTLY,
    Candidate,
    seconds_per_sequence,
    waiting_share,
)
from recipec.planner.search.context import Context, settle
from recipec.planner.search.global_batch import IDLE, NOTHING_FITS, SMALLER, WAITS
from recipec.planner.search.measures import Fit, Known, acceptable_adaptations, choose, idles
from recipec.planner.search.sequences import training_sequences
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger

ENOUGH_STEPS = 100  # with a batch that is larger than the usual one; our decision
_FIRST = False, 0  # the standing of what can be built and trains what the rules put first
_TWICE = 2  # one batch after the first: with two sequences for each GPU it may pay where one does not


def fit(context: Context, loaded: LoadedRecipe, known: Known | None = None) -> Fit:
    """Estimate every candidate of every acceptable adaptation, and choose; a larger batch comes before GPUs that are
    idle or wait, and before a stage that does not fit, or that no bundle can train, because its batch is too
    small for all GPUs; also before another training than the rules put first."""
    known = {} if known is None else known
    usual = found = choose(context, loaded, known)
    if not _can_be_built(found):
        found = _for_all_gpus(context, found, loaded, known)
    elif found.chosen and idles(found.chosen, context) and _standing(context, found.chosen) > _FIRST:
        wider = _for_all_gpus(context, found, loaded, known)
        found = wider if wider.chosen and _standing(context, wider.chosen) == _FIRST else found
    if found.chosen is None:
        return found
    short = _short(context, found.chosen, _made_larger(found)) if found is usual else NOTHING_FITS
    fits, planned = [found], 0
    while (batch := _next_batch(context, fits)) > planned:
        fits.append(choose(replace(context, least_batch=batch, batch_short=short), loaded, known))
        planned = batch
    return _with_own_batch(context, _smallest_batch(context, fits), loaded, known)


def _short(context: Context, chosen: Candidate, made_larger: int) -> str:
    """What is wrong with the batch that the rule decides, where a larger one is taken."""
    if idles(chosen, context):
        return IDLE
    return SMALLER if made_larger and waiting_share(chosen) <= PARTLY else WAITS


def _made_larger(found: Fit) -> int:
    """The next batch that its ranks can make, where they make clearly less than what was decided; otherwise 0."""
    if found.chosen is None or found.ledger is None:
        return 0
    layout, decided = found.chosen.layout, found.ledger.decisions["global_batch_size"].value
    less = layout.global_batch < (1 - NEAR) * decided
    return layout.global_batch + layout.micro_batch * layout.mesh.data_parallel if less else 0


def _with_own_batch(context: Context, found: Fit, loaded: LoadedRecipe, known: Known) -> Fit:
    """What took the place of another training, with the global batch that it has where the recipe asks for it."""
    if found.gave_way is None or found.chosen is None or context.only:
        return found
    taken, gave_way = found.chosen.layout.adaptation, found.gave_way[0].layout.adaptation
    if taken == gave_way:
        return found
    own = fit(replace(context, only=taken), loaded, known)
    if own.chosen is None:
        return found
    others = [each for each in found.tried if each.layout.adaptation != taken]
    return replace(found, chosen=own.chosen, ledger=own.ledger, tried=[*others, *own.tried])


def _smallest_batch(context: Context, fits: Sequence[Fit]) -> Fit:
    """The first that is not clearly slower than the fastest, of those that train what the rules would rather have."""
    standing = [(_standing(context, found.chosen), found) for found in fits if found.chosen is not None]
    first = min(rank for rank, _ in standing)
    alike = [(seconds_per_sequence(found.chosen), found) for rank, found in standing if rank == first and found.chosen]
    limit = (1 + TIE) * min(seconds for seconds, _ in alike)
    return next(found for seconds, found in alike if seconds <= limit)


def _standing(context: Context, chosen: Candidate) -> tuple[bool, int]:
    """What counts before the time, the smaller the better."""
    layout, names = chosen.layout, [name for name, _ in acceptable_adaptations(context)]
    return not layout.can_be_built, names.index(layout.adaptation)


def _for_all_gpus(context: Context, found: Fit, loaded: LoadedRecipe, known: Known) -> Fit:
    """With enough examples in a global batch for every GPU, where fewer leave no layout that fits."""
    names = acceptable_adaptations(context)
    if not names:
        return found
    usual = settle(context, *names[0])
    least = next_batch(context, usual) if uneven_answers(context, usual) else sequences_for_all(context)
    larger = replace(context, least_batch=least, batch_short=NOTHING_FITS)
    raised, decided = (settle(each, *names[0]).decisions["global_batch_size"].value for each in (larger, context))
    if raised == decided:
        return found
    wider = choose(larger, loaded, known)
    return wider if _can_be_built(wider) or (wider.tried and found.chosen is None) else found


def _can_be_built(found: Fit) -> bool:
    return found.chosen is not None and found.chosen.layout.can_be_built


def _next_batch(context: Context, fits: Sequence[Fit]) -> int:
    """A larger global batch to plan, of those that are accepted; 0 where none is worth a look.

    It is the next for all GPUs where some are idle, and twice as much where they wait, which they do once in a step,
    or where a batch that keeps them busy is hardly faster, and the next that they can make where they make clearly
    fewer than its rule decides. What gave way counts where a preferred training did.
    """
    preferred, ledger = fits[-1].gave_way or (fits[-1].chosen, fits[-1].ledger)
    if preferred is None or ledger is None or ledger.decisions["global_batch_size"].origin == "recipe":
        return 0
    batch, most = ledger.decisions["global_batch_size"].value, largest_batch(ledger)
    if idles(preferred, context):
        larger = next_batch(context, ledger)
        larger = larger if uneven_answers(context, ledger) and larger > most else min(larger, most)
        return int(larger) if batch < larger <= most else 0
    gains_little = len(fits) == _TWICE and _smallest_batch(context, fits) is not fits[-1]
    larger = int(min(2 * batch, most)) if waiting_share(preferred) > PARTLY or gains_little else 0
    larger = larger or min(_made_larger(fits[-1]), int(most))
    return larger if larger >= (1 + TIE) * batch else 0


def largest_batch(ledger: Ledger) -> float:
    """The largest global batch that its rule accepts, and with which there are enough steps; 0 where it accepts none
    but its own."""
    value = {id: each.value for id, each in ledger.decisions.items()}
    accepts = ledger.decisions["global_batch_size"].accepts
    return min(accepts[1], training_sequences(value) * value["passes"] / ENOUGH_STEPS) if accepts else 0
