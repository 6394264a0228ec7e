"""What an adapter takes on the base as it is, where the plan trains it on a quantized one."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.planner.advice.rejected import measures
from recipec.planner.advice.ways_out import fits_in, fitting
from recipec.planner.advice.whole_runs import WholeRuns
from recipec.planner.plan import Unquantized
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

_BASE = "train.quantization"


def unquantized(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Unquantized | None:
    """What a recipe that asks for an adapter gets where it refuses a quantized base; None where nothing fits then, or
    its plan has none."""
    assert found.chosen is not None and found.ledger is not None
    row, wish = found.chosen.layout.adapts, context.wishes.get("train.adaptation")
    if wish is None or wish.value == row.name or not row.quantized or _BASE in context.wishes:
        return None
    changed = replace(context, wishes={**context.wishes, _BASE: Wish("none", "an option")})
    then = fitting(changed, loaded)
    if then is None or then.chosen is None or then.ledger is None:
        return None
    undropped = "without dropout" if _dropout(found) and not _dropout(then) else ""
    effect = f"{', '.join(filter(None, (fits_in(then.chosen), undropped)))}; {runs.of(changed, then).beside}"
    plain = then.chosen.layout.on_device and then.chosen.layout.mesh.ranks_per_layer == 1
    only = undropped and f"only {undropped}" if plain else measures(then.chosen)
    return Unquantized(f"{then.chosen.adaptation} fits {only}" if only else "", effect)


def _dropout(found: Fit) -> float:
    """The dropout of the adapters of a plan; 0 where they have none."""
    assert found.ledger is not None
    decision = found.ledger.decisions.get("lora_dropout")
    return decision.value if decision else 0.0
