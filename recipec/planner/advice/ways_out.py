"""What would make a stage fit that does not: single changes of the recipe, each one tried by planning it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.estimate.cost import Cost
from recipec.facts.node import node_of
from recipec.layout import Machines
from recipec.planner.advice.change import Change, GlobalBatch, Proposal
from recipec.planner.advice.changes import (
    MOST_LONGER,
    Changes,
    batch_for_all,
    cut_to,
    halved_models,
    larger_gpu,
    more_gpus,
    more_nodes,
    on_machines,
    other_engines,
    share_longer,
    shorter,
    smaller_batch,
    smaller_model,
    smaller_states,
    unpinned,
    within,
)
from recipec.planner.advice.keys import as_written, named_for, stages_of
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context, settle
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.known_bad import refused
from recipec.planner.search.measures import acceptable_adaptations
from recipec.planner.search.nothing_learned import learns_nothing, total_steps
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.recipe.changed import agrees
from recipec.rules.combination import BadCombination
from recipec.rules.core import Decision, Wish
from recipec.units import GIB, duration, hourly, usd

SHOWN = 4
LONGEST = 365 * 86_400.0  # seconds of a whole run: nobody waits longer for one; our decision
SMALL_SHARE = 0.001  # of the rows: smaller ones are not told as numbers
PATIENCE = 4  # changes of a kind that are tried before the largest: where that is not enough, no other is; our decision
_KINDS = (
    batch_for_all,
    unpinned,
    other_engines,
    smaller_states,
    smaller_batch,
    shorter,
    more_gpus,
    larger_gpu,
    smaller_model,
    more_nodes,
)

Pairs = Sequence[tuple[Context, Fit]]  # each stage with its plan
Whole = Callable[[Pairs, LoadedRecipe], Cost]


class Conditions(Struct, frozen=True):
    """What is told of every change that is proposed, and what else has to be changed with it."""

    over: Callable[[Cost, int], str] = lambda run, gpus: ""  # what a whole run on so many GPUs breaks of the budget
    whole: Whole | None = None  # the whole run of changed stages
    beside: Change = Change()  # without which the recipe is refused
    refused: Sequence[Context] = ()  # other stages that are refused as they are, and are told by themselves


ALONE = Conditions()


class WayOut(Struct, frozen=True):
    """A change with which every stage fits, and its whole run where that is asked for."""

    proposal: Proposal
    cost: Cost | None


def ways_out(
    context: Context,
    others: Sequence[Context],
    loaded: LoadedRecipe,
    terms: Conditions = ALONE,
) -> list[WayOut]:
    """The nearest change of each kind with which every stage fits and can be built, at most four."""
    found: dict[Callable[[Context], Changes], WayOut] = {}
    for kind in _KINDS:
        if kind is more_nodes and more_gpus in found:
            break  # a fuller node is the nearer change
        way = _nearest(kind, context, others, loaded, terms)
        found |= {kind: way} if way is not None else {}
        if len(found) == SHOWN:
            break
    return list(found.values()) or _of_another_family(context, others, loaded, terms)


def by_cost(ways: Sequence[WayOut]) -> list[str]:
    """A line for each, the cheapest first, or the quickest where one has no price; another model is behind them."""
    priced = all(way.cost is not None and way.cost.usd is not None for way in ways)

    def order(way: WayOut) -> tuple[bool, float]:
        other_model = any(key == "model.name" for key, _ in way.proposal.change.sets)
        figure = way.cost and (way.cost.usd if priced else way.cost.seconds)
        return other_model, inf if figure is None else figure

    return [way.proposal.told for way in sorted(ways, key=order)]


def _of_another_family(
    context: Context, others: Sequence[Context], loaded: LoadedRecipe, terms: Conditions
) -> list[WayOut]:
    """The largest model that fits of those that are each about half as large as the one before."""
    way = _nearest(halved_models, context, others, loaded, terms)
    return [way] if way is not None else []


def _nearest(
    kind: Callable[[Context], Changes],
    context: Context,
    others: Sequence[Context],
    loaded: LoadedRecipe,
    terms: Conditions,
) -> WayOut | None:
    """The first change of a kind with which every stage fits; none where nobody would wait for the run."""
    given = [context, *others]
    changes = [each for each in kind(context) if within(each[1], loaded.recipe.policy)]
    for tried, (change, changed) in enumerate(changes):
        contexts = [changed, *(same(kind, change, other) for other in others)]
        written = change_of_all(change, given, contexts).joined(terms.beside)
        if _loses_many(change, contexts[1:]) or not agrees(loaded, written.sets, written.removes):
            continue
        if tried == PATIENCE and fitting(changes[-1][1], loaded) is None:
            return None
        pairs = all_fitting(contexts, loaded)
        if pairs and not any(map(_unlearns, pairs, given)):
            pairs = [*pairs, *_healed(kind, change, loaded, terms)]
            said = _network(changed, loaded), *_longer(change, pairs), *_idle(pairs)
            found = way(written, pairs, loaded, tuple(filter(None, said)), terms, context)
            found = _on_used(found, contexts, pairs, loaded, terms, context) or found
            return None if found.cost is not None and found.cost.seconds > LONGEST else found
    return None


def _idle(pairs: Pairs) -> Iterator[str]:
    """The GPUs of each stage that have no work, and are paid."""
    for context, found in pairs:
        assert found.chosen is not None
        gpus, used = context.facts.machines.gpus, found.chosen.layout.gpus
        if used < gpus:
            of = f" in stage {context.stage.label}" * (len(pairs) > 1)
            yield f"{gpus - used} of {gpus} GPUs are then idle{of}, and paid"


def _on_used(
    found: WayOut, contexts: Sequence[Context], pairs: Pairs, loaded: LoadedRecipe, terms: Conditions, before: Context
) -> WayOut | None:
    """The same change with only as many GPUs of one node as its stage uses, where that costs less; a measured node has
    its own."""
    (context, fitted), facts = pairs[0], before.facts
    assert fitted.chosen is not None
    used, now = fitted.chosen.layout.gpus, context.facts.machines
    if used >= now.gpus_per_node or facts.gpu.measured is not None:
        return None
    fewer = Machines(1, used)
    sets = {"hardware.gpus_per_node": used, **({"hardware.nodes": 1} if now.nodes > 1 else {})}
    change = replace(found.proposal.change, sets=tuple({**dict(found.proposal.change.sets), **sets}.items()))
    there = all_fitting([on_machines(each, fewer) for each in contexts], loaded)
    if len(there) < len(pairs) or not agrees(loaded, change.sets, change.removes) or not _train_alike(there, pairs):
        return None
    then = way(change, there, loaded, tuple(_longer(change, there)), terms, before)
    both = [each.cost.usd for each in (then, found) if each.cost is not None and each.cost.usd is not None]
    return then if len(both) == 2 and both[0] < both[1] else None


def _train_alike(there: Pairs, pairs: Pairs) -> bool:
    """Whether every stage trains what it does on more GPUs."""
    then, now = ([found.chosen and found.chosen.layout.adapts for _, found in each] for each in (there, pairs))
    return then == now


def change_of_all(change: Change, given: Sequence[Context], changed: Sequence[Context]) -> Change:
    """A change of the first stage, and of the others that are then changed as well, with the keys of the recipe."""
    (first, *others), (_, *then) = given, changed
    return as_written(
        change, first, *(before for before, after in zip(others, then, strict=True) if after is not before)
    )


def _unlearns(pair: tuple[Context, Fit], before: Context) -> bool:
    """Whether a stage that learns something learns nothing once it is changed."""
    if not _learns_nothing(*pair):
        return False
    _, found = pair
    assert found.chosen is not None
    now = _decided_before(before, found.chosen)
    steps = total_steps(before.wishes, now, now["global_batch_size"].value)
    return not learns_nothing(before.stage.name, steps, now)


def _learns_nothing(context: Context, found: Fit) -> bool:
    assert found.chosen is not None and found.ledger is not None
    given = found.ledger.decisions
    return learns_nothing(
        context.stage.name, total_steps(context.wishes, given, found.chosen.layout.global_batch), given
    )


def way(
    change: Change,
    pairs: Pairs,
    loaded: LoadedRecipe,
    notes: tuple[str, ...],
    terms: Conditions,
    before: Context,
    only: str = "",
) -> WayOut:
    """A change with what it gives of the first stage, and the whole run of all; `before` is the stage without it."""
    context, found = pairs[0]
    assert found.chosen is not None
    cost = terms.whole(pairs, loaded) if terms.whole else None
    over = terms.over(cost, context.facts.machines.gpus) if cost else ""
    takes = (_takes(cost, context, before), *[over] * bool(over)) if cost else ()
    batches = batch_before(before, found.chosen), found.chosen.layout
    left = tuple(_left_to_fix(pairs, terms))
    return WayOut(Proposal(change, fits_in(found.chosen), *batches, only, (*takes, *notes, *left)), cost)


def _healed(
    kind: Callable[[Context], Changes], change: Change, loaded: LoadedRecipe, terms: Conditions
) -> Iterator[tuple[Context, Fit]]:
    """The stages that are refused as they are, and fit with a change."""
    for changed in (same(kind, change, other) for other in terms.refused):
        if (found := fitting(changed, loaded)) is not None:
            yield changed, found


def _left_to_fix(pairs: Pairs, terms: Conditions) -> Iterator[str]:
    """The errors of stages that are there all the same."""
    planned = [context.stage for context, _ in pairs]
    for stage in (other.stage for other in terms.refused if other.stage not in planned):
        yield f"fix E0405 of stage {stage.label}, too, whose time is not counted"
    for context, found in pairs:
        if (row := _refused_then(context, found)) is not None:
            yield f"fix E0405 of stage {context.stage.label}, too: {row.title}"
        if _learns_nothing(context, found):
            yield f"fix E0411 of stage {context.stage.label}, too: it learns nothing"


def _refused_then(context: Context, found: Fit) -> BadCombination | None:
    """What a plan is refused for once its intervals are settled, as they are with its whole run."""
    assert found.chosen is not None and found.ledger is not None
    decisions, work = found.ledger.decisions, work_of(found.ledger, context.facts)
    refusal = refused(found.chosen.layout, decisions, context.facts.model.architecture, work)
    return refusal.row if refusal is not None else None


def batch_before(before: Context, then: Candidate) -> GlobalBatch:
    """The global batch of a stage that has no plan."""
    decided = _decided_before(before, then)
    return GlobalBatch(decided["global_batch_size"].value, decided["packing"].value)


def _decided_before(before: Context, then: Candidate) -> Mapping[str, Decision]:
    """What the rules decide of a stage without a plan: for what is trained after a change, or would be without it."""
    names = [name for name, _ in acceptable_adaptations(before)] or METHODS[before.stage.name].adaptations
    return settle(before, then.layout.adaptation if then.layout.adaptation in names else names[0], "").decisions


def _takes(cost: Cost, context: Context, before: Context) -> str:
    """Time and money of a whole run; of other GPUs also their price, which is not that of the recipe's."""
    time = f"the whole run takes {duration(cost.seconds)}"
    if cost.usd is None:
        return time
    price, name = context.facts.decisions["gpu_price"], context.facts.gpu.name
    basis = price.because.partition(";")[0]
    other = f" at {hourly(price.value)} an hour for {name} ({basis})" * (name != before.facts.gpu.name)
    return f"{time} and costs {usd(cost.usd)}{other}"


def all_fitting(contexts: Sequence[Context], loaded: LoadedRecipe) -> Pairs:
    """Every stage with its plan; none where one does not fit."""
    pairs = []
    for context in contexts:
        found = fitting(context, loaded)
        if found is None:
            return ()
        pairs.append((context, found))
    return pairs


def _network(changed: Context, loaded: LoadedRecipe) -> str:
    """What several nodes need said of what lies between them, where nothing is known of it."""
    machines, gpu = changed.facts.machines, changed.facts.gpu
    known = machines.nodes == 1 or node_of(loaded.recipe.hardware, gpu, machines.gpus_per_node).network_gbps is not None
    return "" if known else "several nodes need `hardware.network_gbps`, too: what one sends to the others, in Gbit/s"


def _loses_many(change: Change, others: Sequence[Context]) -> bool:
    """Whether preparation would stop at the rows that a shorter max_length loses of another stage."""
    length = _length_of(change)
    return length is not None and any(share_longer(context, length) > MOST_LONGER for context in others)


def _longer(change: Change, pairs: Pairs) -> Iterator[str]:
    """What a shorter max_length loses of the rows of each stage."""
    length = _length_of(change)
    for context, found in pairs if length else ():
        if share := share_longer(context, length):
            assert found.ledger is not None
            lost = "cut" if found.ledger.decisions["overflow"].value == "truncate" else "left out"
            of = f" of stage {context.stage.label}" * (len(pairs) > 1)
            about = f"about {share:.1%}" if share >= SMALL_SHARE else f"fewer than {SMALL_SHARE:.1%}"
            yield f"{about} of the rows{of} are longer: they are {lost}"


def _length_of(change: Change) -> int | None:
    """The max_length that a change sets."""
    return dict(change.sets).get("data.max_length")


def buildable(context: Context, loaded: LoadedRecipe) -> Candidate | None:
    """What would be chosen, where it can be built."""
    found = fitting(context, loaded)
    return found.chosen if found is not None else None


def fitting(context: Context, loaded: LoadedRecipe) -> Fit | None:
    """The same with the decisions behind it."""
    found = fit(replace(context, built=True), loaded)
    return found if found.chosen is not None and found.chosen.layout.can_be_built else None


def same(kind: Callable[[Context], Changes], change: Change, other: Context) -> Context:
    """Another stage with the same change, where it is one there; a length is that of all stages."""
    if length := _length_of(change):
        return cut_to(other, length)
    alike = next((changed for found, changed in kind(other) if found == change), None)
    return alike if alike is not None else _on_nodes(change, other)


def holds_for(change: Change, others: Sequence[Context], loaded: LoadedRecipe) -> bool:
    """Whether every other stage fits with the same keys, where stages have no table of their own for them."""
    return all(fitting(asking(change, other), loaded) is not None for other in others)


def asking(change: Change, other: Context) -> Context:
    """A stage with the keys of a change, on its machines."""
    wished = {key: Wish(value, "an option") for key, value in change.sets if not key.startswith("hardware.")}
    moved = _on_nodes(change, other)
    return replace(moved, wishes={**moved.wishes, **wished})


def beside(changed: Context, before: Context, other: Context) -> Context:
    """Another stage with what a change of a stage sets or removes for all of them, and on its machines."""
    alike, stages = other.stage.name == before.stage.name, stages_of(before)
    new = {key: wish for key, wish in changed.wishes.items() if before.wishes.get(key) != wish}
    own = {key for key in new if named_for(key, before.stage.name, stages, before.facts.loaded) != key and not alike}
    gone = before.wishes.keys() - changed.wishes.keys()
    kept = {key: wish for key, wish in other.wishes.items() if key not in gone or wish != before.wishes[key]}
    wishes = kept | {key: wish for key, wish in new.items() if key not in own}
    machines = changed.facts.machines
    moved = other if machines == before.facts.machines else on_machines(other, machines)
    return replace(moved, wishes=wishes)


def _on_nodes(change: Change, other: Context) -> Context:
    """Another stage on as many nodes of as many GPUs: all stages have the same."""
    now, sets = other.facts.machines, dict(change.sets)
    nodes, gpus = sets.get("hardware.nodes", now.nodes), sets.get("hardware.gpus_per_node", now.gpus_per_node)
    machines = Machines(nodes, gpus)
    return other if machines == now else on_machines(other, machines)


def fits_in(chosen: Candidate) -> str:
    """What a change gives: "LoRA, zero3 then fits in 16.9 GiB per GPU"."""
    host = f" and {chosen.host_bytes / GIB:.0f} GiB of host memory per node" if not chosen.layout.on_device else ""
    return f"{chosen.title} then fits in {chosen.memory.peak_allocated_bytes / GIB:.1f} GiB per GPU{host}"
