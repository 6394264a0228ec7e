"""What checkpoints would cost a long run that is planned without: one that is cut off begins anew."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.estimate.storage import checkpoint_bytes
from recipec.estimate.whole_run import rates_of, written_seconds
from recipec.planner.advice.change import Proposal, planned, setting
from recipec.planner.advice.needs import needs_of
from recipec.planner.advice.whole_runs import WholeRuns
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger, Wish
from recipec.rules.intervals import saves_in, steps_taught
from recipec.units import counted, duration, gib, usd

COSTLY = 24 * 3600.0  # GPU seconds that are lost where the run is cut off; our decision
_SHARE = 0.5  # of the run between two checkpoints, about: few of them, as each takes long; our decision


def with_checkpoints(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The time, money and disk of checkpoints, each with its share of them."""
    assert found.chosen is not None and found.ledger is not None
    gpus = context.facts.machines.gpus
    if "train.save_every" in context.wishes or _saves(found.ledger) or runs.now.seconds * gpus < COSTLY:
        return
    every = found.ledger.decisions["eval_every"].value
    share = round(max(1, round(_SHARE / every)) * every, 6)  # a multiple of it: others are refused (BAD-017)
    changed = replace(context, wishes={**context.wishes, "train.save_every": Wish(share, "an option")})
    then = fit(changed, loaded)
    if then.chosen is None or then.ledger is None or then.chosen.layout != found.chosen.layout:
        return
    run, facts, asked = runs.of(changed, then), context.facts, loaded.recipe.evaluate.max_new_tokens
    written = checkpoint_bytes(facts.model.architecture, then.chosen.layout, work_of(then.ledger, facts))
    seconds, price = written_seconds(written, rates_of(facts.gpu.measured)), facts.decisions["gpu_price"].value
    money = "" if price is None else f" and {usd(gpus * seconds / 3600 * price)}"
    disk = (needs_of(facts, each.ledger, then.chosen, asked).storage.total_bytes for each in (then, found))
    effect = f"{counted(_saves(then.ledger), 'checkpoint')} of {gib(written)}, {duration(seconds)}{money} each"
    room = "{} of disk instead of {}".format(*map(gib, disk))
    change, but = setting(train__save_every=share), ("without them a run that is cut off begins anew",)
    yield planned(change, f"{effect}; {run.beside}, in {room}", found.chosen, then.chosen, but=but)


def _saves(ledger: Ledger) -> int:
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    return saves_in(value["eval_every"], value["save_every"], value["total_steps"], steps_taught(value))
