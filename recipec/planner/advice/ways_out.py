"""What would make a stage fit that does not: single changes of the recipe, each one tried by planning it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from recipec.facts.node import node_of
from recipec.planner.advice.change import Change, Proposal
from recipec.planner.advice.changes import (
    Changes,
    batch_for_all,
    larger_gpu,
    more_gpus,
    more_nodes,
    shorter,
    smaller_model,
    smaller_states,
    unpinned,
    within,
)
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.units import GIB

SHOWN = 4


def ways_out(
    context: Context,
    others: Sequence[Context],
    loaded: LoadedRecipe,
    over: Callable[[Sequence[Context]], str] = lambda changed: "",
) -> list[str]:
    """The nearest change of each kind with which every stage fits and can be built, at most four, each as a line.

    `over` tells what the changed stages break of the budget, which is said with the change.
    """
    found = []
    kinds: set[Callable[[Context], Changes]] = set()
    for kind in (batch_for_all, unpinned, smaller_states, shorter, more_gpus, larger_gpu, smaller_model, more_nodes):
        if kind is more_nodes and more_gpus in kinds:
            break  # a fuller node is the nearer change
        for change, changed in kind(context):
            chosen = buildable(changed, loaded) if within(changed, loaded.recipe.policy) else None
            changed_others = [same(kind, change, other) for other in others]
            if chosen is not None and all(buildable(other, loaded) for other in changed_others):
                broken = over([changed, *changed_others])
                notes = tuple(note for note in (broken, _network(changed, loaded)) if note)
                written = as_written(change, context.stage.name, loaded)
                found.append(Proposal(written, fits_in(chosen), but=notes).told)
                kinds.add(kind)
                break
        if len(found) == SHOWN:
            break
    return found


def _network(changed: Context, loaded: LoadedRecipe) -> str:
    """What several nodes need said of what lies between them, where nothing is known of it."""
    machines, gpu = changed.facts.machines, changed.facts.gpu
    known = machines.nodes == 1 or node_of(loaded.recipe.hardware, gpu, machines.gpus_per_node).network_gbps is not None
    return "" if known else "several nodes need `hardware.network_gbps`, too: what one sends to the others, in Gbit/s"


def buildable(context: Context, loaded: LoadedRecipe) -> Candidate | None:
    """What would be chosen, where it can be built."""
    found = fitting(context, loaded)
    return found.chosen if found is not None else None


def fitting(context: Context, loaded: LoadedRecipe) -> Fit | None:
    """The same with the decisions behind it."""
    found = fit(context, loaded)
    return found if found.chosen is not None and found.chosen.layout.can_be_built else None


def same(kind: Callable[[Context], Changes], change: Change, other: Context) -> Context:
    """Another stage with the same change, where it is one there."""
    return next((changed for found, changed in kind(other) if found == change), other)


def as_written(change: Change, stage: str, loaded: LoadedRecipe) -> Change:
    """A change with the keys that it removes named as the recipe writes them for a stage."""
    lines = dict.fromkeys(line for key in change.removes for line in _lines(stage, key, loaded))
    return replace(change, removes=tuple(lines))


def _lines(stage: str, key: str, loaded: LoadedRecipe) -> list[str]:
    """Where the recipe writes a key for a stage: in [train.STAGE], in [train], or in both; else the adapter says it."""
    paths = dict.fromkeys((loaded.written_for(stage, key), tuple(key.split("."))))
    return [".".join(path) for path in paths if loaded.is_set(*path)] or ["model.init_from"]


def fits_in(chosen: Candidate) -> str:
    """What a change gives: "LoRA, zero3 then fits in 16.9 GiB per GPU"."""
    host = f" and {chosen.host_bytes / GIB:.0f} GiB of host memory per node" if not chosen.layout.on_device else ""
    return f"{chosen.title} then fits in {chosen.memory.peak_device_bytes / GIB:.1f} GiB per GPU{host}"
