"""What is not supported on more GPUs with a value of the recipe, and what they do without it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from recipec.planner.advice.change import Change
from recipec.planner.advice.changes import unpinned
from recipec.planner.advice.mending import removable_keys, stated
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.known_bad import Refusal
from recipec.recipe import LoadedRecipe
from recipec.rules.combination import BadCombination

_PARALLEL = ("train.tensor_parallel", "train.context_parallel", "train.expert_parallel")
_FURTHER = 2  # times that what is refused once keys are gone is looked at; our decision


class Freed(Struct, frozen=True):
    """A row against layouts on more GPUs, and a plan on more of them without the keys that it is about."""

    row: BadCombination
    change: Change
    context: Context
    then: Fit


def freed_on_more(context: Context, found: Fit, loaded: LoadedRecipe) -> Freed | None:
    """The first row without whose keys the same adaptation trains on more GPUs."""
    stage = context.stage.name
    for refusal in refused_on_more(found):
        for key in removable_keys(loaded, stage, [refusal]):
            freed = _without(context, found, loaded, [key])
            if freed is not None:
                change, changed, then = freed
                return Freed(refusal.row, change, changed, then)
    return None


def refused_on_more(found: Fit) -> list[Refusal]:
    """One refusal of each row against layouts of the chosen adaptation on more GPUs, first of the chosen strategy."""
    assert found.chosen is not None
    chosen, least = found.chosen.layout, found.chosen.layout.mesh.ranks_per_layer
    wider = [each for each in found.bad if each.layout.mesh.world_size > chosen.mesh.world_size]
    plain = [each for each in wider if each.layout.on_device and each.layout.mesh.ranks_per_layer <= least]
    plain.sort(key=lambda each: each.layout.strategy != chosen.strategy)
    return [*{each.row.id: each for each in plain if each.layout.adapts is chosen.adapts}.values()]


def _without(
    context: Context, found: Fit, loaded: LoadedRecipe, keys: Sequence[str]
) -> tuple[Change, Context, Fit] | None:
    """The plan without keys, and without those that are refused once they are gone; None where it has no more GPUs."""
    assert found.chosen is not None
    for _ in range(1 + _FURTHER):
        changes = [*unpinned(context, keys)]
        if not changes:
            return None
        change, changed = changes[-1]
        then = fit(changed, loaded)
        if then.chosen is None:
            left = removable_keys(loaded, context.stage.name, stated(loaded, context.stage.name, then.bad))
        elif not then.chosen.layout.can_be_built:
            left = [key for key in _PARALLEL if key in changed.wishes]
        else:
            return (change, changed, then) if then.chosen.layout.gpus > found.chosen.layout.gpus else None
        keys = [*keys, *(key for key in left if key not in keys)]
    return None
