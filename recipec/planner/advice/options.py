"""What a recipe may also choose beside a plan that fits: packed rows, fewer GPUs, a larger micro batch; each timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.attention import ATTENTIONS, BOUNDARIES
from recipec.planner.search.candidates import Candidate, best, seconds_per_sequence
from recipec.planner.search.context import Context, training_sequences
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish
from recipec.units import times

WORTH_NAMING = 0.95  # of the time or the cost: less is within what the estimates can tell; our decision
CHEAPER = 0.9  # of the cost, where it takes longer; our decision
_UNPROVEN = "; recipec does not take it by itself, as no run of it on a GPU is recorded (PREC-002)"
_WITH_MASK = "; recipec does not take it by itself, as the gain is small and the plan's alone (DATA-002)"


def options(context: Context, found: Fit, loaded: LoadedRecipe, next_micro_batch: str) -> tuple[str, ...]:
    """Changes that fit as well, with what they give; `next_micro_batch` says what a larger one would take."""
    larger = (f"a micro batch of {next_micro_batch}",) if next_micro_batch else ()
    return (*_packed(context, found, loaded), *_fewer_gpus(context, found), *larger)


def _packed(context: Context, found: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """Rows without padding: with a kernel that is told where they begin, or else with a mask."""
    assert found.ledger is not None
    given, wishes = found.ledger.decisions, context.wishes
    if METHODS[context.stage.name].packs != "examples" or given["packing"].value or "train.packing" in wishes:
        return
    kernel = next((row.name for row in ATTENTIONS.values() if row.apart == BOUNDARIES and row.brought), "")
    if kernel and given["gpu_varlen"].value and "train.attention" not in wishes:
        yield from _timed(context, found, loaded, ("train.attention", kernel, f'"{kernel}"'), _UNPROVEN)
    elif not given["gpu_is_cpu"].value:
        yield from _timed(context, found, loaded, ("train.packing", True, "true"), _WITH_MASK)


def _timed(
    context: Context, found: Fit, loaded: LoadedRecipe, change: tuple[str, object, str], but: str
) -> Iterator[str]:
    """A change of one key that packs, where it is planned to be faster."""
    key, value, written = change
    then = fit(replace(context, wishes={**context.wishes, key: Wish(value, "an option")}), loaded)
    if then.chosen is None or not then.chosen.layout.can_be_built or not _same(then.chosen, found.chosen):
        return
    ratio = _seconds(then) / _seconds(found)
    if ratio <= WORTH_NAMING:
        yield f"`{key} = {written}`: packed rows have no padding and take {ratio:.2f}x the time{but}"


def _same(other: Candidate, chosen: Candidate | None) -> bool:
    return chosen is not None and other.layout.adapts is chosen.layout.adapts


def _seconds(found: Fit) -> float:
    """Of one pass over the rows; packed ones are fewer sequences."""
    assert found.chosen is not None and found.ledger is not None
    value = {id: decision.value for id, decision in found.ledger.decisions.items()}
    return training_sequences(value) * seconds_per_sequence(found.chosen)


def _fewer_gpus(context: Context, found: Fit) -> Iterator[str]:
    """The fastest of what costs clearly less: all GPUs of the recipe are paid for as long as it trains."""
    assert found.chosen is not None
    machines, chosen = context.facts.machines, found.chosen
    if chosen.layout.mesh.world_size < machines.gpus:
        return  # that some are idle is told with its way out
    alike = [other for other in found.tried if _alike(other, chosen)]
    ways = []
    for keys, gpus in _smaller(machines.nodes, machines.gpus_per_node):
        other = best([each for each in alike if each.layout.mesh.world_size == gpus])
        if other is not None:
            ratio = seconds_per_sequence(other) / seconds_per_sequence(chosen)
            ways.append((ratio, ratio * gpus / machines.gpus, keys))
    cheaper = [way for way in ways if way[1] <= CHEAPER]
    if cheaper:
        ratio, cost, keys = min(cheaper)
        yield f"{keys}: training takes {times(ratio)} at {cost:.2f}x the cost"


def _smaller(nodes: int, per_node: int) -> list[tuple[str, int]]:
    """Whole nodes, then parts of one."""
    fewer = [(f"`hardware.nodes = {count}`", count * per_node) for count in _divisors(nodes)]
    one = "`hardware.nodes = 1` and " * (nodes > 1)
    return [*fewer, *((f"{one}`hardware.gpus_per_node = {count}`", count) for count in _divisors(per_node))]


def _divisors(count: int) -> Sequence[int]:
    return [size for size in range(1, count) if count % size == 0]


def _alike(other: Candidate, chosen: Candidate) -> bool:
    """Whether it trains the same, can be built, and keeps nothing in host memory that the plan does not."""
    layout = other.layout
    return other.fits and layout.adapts is chosen.layout.adapts and layout.can_be_built and layout.on_device
