"""What recipec plans in place of a global batch that the recipe sets: the rule alone does not decide it."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.planner.outcome import run_batch
from recipec.planner.search.context import Context
from recipec.planner.search.fit import fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger, beside


def own_batch(context: Context, ledger: Ledger, loaded: LoadedRecipe) -> None:
    """Say of a global batch outside the accepted range what recipec plans without it, which GPUs that share it may have
    made larger than that range: such a batch is accepted from a recipe, too."""
    batch = ledger.decisions["global_batch_size"]
    if not batch.dissent or context.facts.machines.gpus == 1:
        return
    free = {key: wish for key, wish in context.wishes.items() if key != batch.key}
    then = fit(replace(context, wishes=free), loaded)
    if then.chosen is None or then.ledger is None:
        return
    if then.ledger.decisions["adaptation"].value == ledger.decisions["adaptation"].value:
        run_batch(then.ledger, then.chosen.layout)
        own = then.ledger.decisions[batch.id]
        least, most = own.accepts or (own.value, own.value)
        ledger.decisions[batch.id] = beside(batch, replace(own, accepts=(least, max(most, own.value))))
