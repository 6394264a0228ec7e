"""What would make a stage fit that does not: single changes of the recipe, each one tried by planning it."""

from __future__ import annotations

from recipec.planner.buildable import can_be_built
from recipec.planner.changes import larger_gpu, more_gpus, more_nodes, shorter, smaller_model, unpinned
from recipec.planner.choose import GIB, Candidate
from recipec.planner.fit import fit
from recipec.planner.settle import Context
from recipec.recipe import LoadedRecipe

SHOWN = 3


def ways_out(context: Context, loaded: LoadedRecipe) -> list[str]:
    """The nearest change of each kind that fits and can be built, at most three, each as a line for the user."""
    found = []
    for kind in (unpinned, shorter, more_gpus, larger_gpu, smaller_model, more_nodes):
        for change, changed in kind(context):
            chosen = fit(changed, loaded).chosen
            if chosen is not None and can_be_built(chosen.layout):
                found.append(f"{change}: {_summary(chosen)}")
                break
        if len(found) == SHOWN:
            break
    return found


def _summary(chosen: Candidate) -> str:
    host = f" and {chosen.host_bytes / GIB:.0f} GiB of CPU memory" if not chosen.layout.on_device else ""
    return f"{chosen.title} fits with {chosen.memory.peak_allocated_bytes / GIB:.1f} GiB allocated per device{host}"
