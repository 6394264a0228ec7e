"""What a recipe may also choose beside a plan that fits, each timed: more that is trained, packed rows, fewer GPUs, a
larger micro batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec.structs import asdict, replace

from recipec.axes import METHODS
from recipec.axes.attention import ATTENTIONS, BOUNDARIES
from recipec.layout import Layout, Machines
from recipec.planner.advice.change import Change, Proposal, setting
from recipec.planner.advice.changes import on_machines
from recipec.planner.advice.next_better import on_present_gpus
from recipec.planner.search.candidates import Candidate, best, seconds_per_sequence
from recipec.planner.search.context import Context, training_sequences
from recipec.planner.search.fit import ENOUGH_STEPS, Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish
from recipec.units import times

WORTH_NAMING = 0.95  # of the time or the cost: less is within what the estimates can tell; our decision
CHEAPER = 0.9  # of the cost, where it takes longer; our decision
_PLANNED = 2  # of those that look cheaper
_UNPROVEN = "recipec does not take it by itself, as no run of it on a GPU is recorded (PREC-002)"
_WITH_MASK = "recipec does not take it by itself, as no run with such a mask on a GPU is recorded (DATA-002)"
_OF_ROWS = ("train.global_batch_size", "train.micro_batch_size")  # a packed sequence is many of them


def options(context: Context, found: Fit, loaded: LoadedRecipe, next_micro_batch: str) -> tuple[str, ...]:
    """Changes that fit as well, with what they give; `next_micro_batch` says what a larger one would take."""
    assert found.chosen is not None
    larger = (f"a micro batch of {next_micro_batch}",) if next_micro_batch else ()
    more = on_present_gpus(context, found.chosen, found.tried, loaded)
    return (
        *([more.told] if more else []),
        *_packed(context, found, loaded),
        *_more_answers(context, found, loaded),
        *_fewer_gpus(context, found, loaded),
        *larger,
    )


def _packed(context: Context, found: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """Rows without padding: with a kernel that is told where they begin, or else with a mask."""
    assert found.ledger is not None
    given, wishes = found.ledger.decisions, context.wishes
    if METHODS[context.stage.name].packs != "examples" or given["packing"].value or "train.packing" in wishes:
        return
    kernel = next((row.name for row in ATTENTIONS.values() if row.apart == BOUNDARIES and row.brought), "")
    if kernel and given["gpu_varlen"].value and "train.attention" not in wishes:
        yield from _timed(context, found, loaded, ("train.attention", kernel), _UNPROVEN)
    elif not given["gpu_is_cpu"].value:
        yield from _timed(context, found, loaded, ("train.packing", True), _WITH_MASK)


def _timed(context: Context, found: Fit, loaded: LoadedRecipe, change: tuple[str, object], but: str) -> Iterator[str]:
    """A change of one key that packs, where it is planned to be faster with about as many examples in a step."""
    key, value = change
    free = {key: wish for key, wish in context.wishes.items() if key not in _OF_ROWS}
    then = fit(replace(context, wishes={**free, key: Wish(value, "an option")}), loaded)
    if then.chosen is None or not then.chosen.layout.can_be_built or not _same(then.chosen, found.chosen):
        return
    ratio = _seconds(then) / _seconds(found)
    if ratio <= WORTH_NAMING:
        stated = tuple(_of_sequences(context, then.chosen.layout))
        alike = ", with about as many examples in a step" * bool(stated)
        effect = f"packed rows have no padding and take {ratio:.2f}x the time{alike}"
        yield Proposal(Change((change, *stated)), effect, but=(but,)).told


def _of_sequences(context: Context, packed: Layout) -> Iterator[tuple[str, int]]:
    """The batches that the recipe states in rows, in packed sequences."""
    for key, size in zip(_OF_ROWS, (packed.global_batch, packed.micro_batch), strict=True):
        if key in context.wishes and context.wishes[key].value != size:
            yield key, size


def _same(other: Candidate, chosen: Candidate | None) -> bool:
    return chosen is not None and other.layout.adapts is chosen.layout.adapts


def _seconds(found: Fit) -> float:
    """Of one pass over the rows; packed ones are fewer sequences."""
    assert found.chosen is not None and found.ledger is not None
    value = {id: decision.value for id, decision in found.ledger.decisions.items()}
    return training_sequences(value) * seconds_per_sequence(found.chosen)


def _more_answers(context: Context, found: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """The largest accepted batch up to which each doubling saves time: a GPU writes many answers as fast as a few."""
    assert found.chosen is not None and found.ledger is not None
    decided, row = found.ledger.decisions, found.chosen.layout.adapts
    batch, given = decided["global_batch_size"], {id: decision.value for id, decision in decided.items()}
    if not METHODS[context.stage.name].generates or batch.origin == "recipe" or batch.accepts is None:
        return
    most = min(batch.accepts[1], training_sequences(given) * given["passes"] / ENOUGH_STEPS)
    alike = {} if row.trains_all else {"train.quantization": Wish(row.base, "the same adaptation")}
    alike |= {"train.adaptation": Wish(row.family, "the same adaptation"), **context.wishes}
    taken, size = found, 2 * batch.value
    while size <= most:
        wishes = {**alike, "train.global_batch_size": Wish(size, "more answers")}
        then = fit(replace(context, wishes=wishes), loaded)
        if then.chosen is None or not _alike(then.chosen, found.chosen) or _seconds(then) > CHEAPER * _seconds(taken):
            break
        taken, size = then, 2 * size
    if taken is not found:
        change = setting(train__global_batch_size=size // 2)
        effect = f"answers are written together, and training takes {times(_seconds(taken) / _seconds(found))}"
        yield Proposal(change, effect, but=(f"a step then learns from {size // 2} answers",)).told


def _fewer_gpus(context: Context, found: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """The fastest of what costs clearly less: all GPUs of the recipe are paid for as long as it trains."""
    assert found.chosen is not None
    machines = context.facts.machines
    if found.chosen.layout.mesh.world_size < machines.gpus:
        return  # that some are idle is told with its way out
    for fewer in _promising(machines, found)[:_PLANNED]:
        then = fit(on_machines(context, fewer), loaded)
        if then.chosen is None or not _alike(then.chosen, found.chosen):
            continue
        ratio = _seconds(then) / _seconds(found)
        if (cost := ratio * fewer.gpus / machines.gpus) <= CHEAPER:
            effect = f"training takes {times(ratio)} at {cost:.2f}x the cost"
            yield Proposal(_fewer(fewer, machines), effect).told
            return


def _promising(machines: Machines, found: Fit) -> list[Machines]:
    """Fewer nodes or GPUs on which a layout that was tried costs clearly less, the fastest first."""
    assert found.chosen is not None
    chosen, ratios = found.chosen, {}
    alike = [other for other in found.tried if _alike(other, chosen)]
    for fewer in _smaller(machines):
        other = best([each for each in alike if each.layout.mesh.world_size == fewer.gpus])
        ratio = seconds_per_sequence(other) / seconds_per_sequence(chosen) if other is not None else inf
        if ratio * fewer.gpus / machines.gpus <= CHEAPER:
            ratios[fewer] = ratio
    return sorted(ratios, key=ratios.__getitem__)


def _smaller(machines: Machines) -> list[Machines]:
    """Fewer whole nodes, and parts of one."""
    nodes = [Machines(count, machines.gpus_per_node) for count in _divisors(machines.nodes)]
    return [*nodes, *(Machines(1, count) for count in _divisors(machines.gpus_per_node))]


def _fewer(fewer: Machines, now: Machines) -> Change:
    """The lines of [hardware] that change."""
    changed = ((f"hardware.{name}", count) for name, count in asdict(fewer).items() if count < getattr(now, name))
    return Change(tuple(changed))


def _divisors(count: int) -> Sequence[int]:
    return [size for size in range(1, count) if count % size == 0]


def _alike(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same, can be built, and keeps nothing in host memory that the plan does not."""
    layout = other.layout
    return other.fits and layout.adapts is chosen.layout.adapts and layout.can_be_built and layout.on_device
