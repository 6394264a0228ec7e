"""Keys of memory and speed that decide what is trained, though the recipe does not name an adaptation."""

from __future__ import annotations

from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.advice.change import asking_for, quoted
from recipec.planner.advice.changes import unpinned
from recipec.planner.advice.keys import as_written
from recipec.planner.advice.ways_out import fits_in
from recipec.planner.search.candidates import Candidate, usable_bytes
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.preference import by_preference, nearest_of
from recipec.recipe import LoadedRecipe
from recipec.units import gib

OF_MEMORY = (
    *("train.micro_batch_size", "train.activation_checkpointing", "train.recompute_every"),
    *("train.activation_offload", "train.offload", "train.strategy"),
)
_NAMES_IT = {"train.adaptation", "train.quantization"}


def deciding_key(context: Context, found: Fit, loaded: LoadedRecipe) -> Diagnostic | None:
    """The key without which the stage would train what the rules put first (W0545); None where none decides."""
    if found.chosen is None or _NAMES_IT & context.wishes.keys():
        return None
    order = by_preference(found.tried)
    before = order[: order.index(found.chosen.adaptation)]
    for change, changed in unpinned(context, OF_MEMORY) if before else ():
        then = fit(changed, loaded).chosen
        if then is not None and then.adaptation in before and then.layout.can_be_built:
            keys = [key for key in OF_MEMORY if key in context.wishes and key not in changed.wishes]
            help = f"{as_written(change, context).told}: {fits_in(then)}"
            return _finding(context, found, loaded, keys, then, help)
    return None


def _finding(
    context: Context, found: Fit, loaded: LoadedRecipe, keys: list[str], then: Candidate, help: str
) -> Diagnostic:
    assert found.chosen is not None
    stage, chosen = context.stage.name, found.chosen
    paths = [loaded.written_for(stage, key) for key in keys]
    places = [loaded.place(*path) for path in paths]
    alike = [other for other in found.tried if other.adaptation == then.adaptation]
    nearest = nearest_of([other for other in alike if not other.fits and other.layout.on_device] or alike)
    peak, room = nearest.memory.peak_allocated_bytes, usable_bytes(context.facts.gpu, nearest.layout.mesh.world_size)
    needs = f"with it, {then.adaptation} needs {gib(peak)} per GPU, and {gib(room)} are usable"
    keeps = asking_for(chosen.layout.adapts, then.layout.adapts).lines
    return Diagnostic(
        "W0545",
        f"stage {stage} trains {chosen.adaptation} because of {quoted(['.'.join(path) for path in paths])}",
        (Label(places[0], needs), *(Label(place, "beside it") for place in places[1:])),
        (help, f"to train {chosen.adaptation}, set {keeps}"),
    )
