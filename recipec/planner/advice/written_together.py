"""More answers that are written together: a GPU writes many nearly as fast as a few, so that fewer generations do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.whole_runs import WholeRuns, pass_seconds, same_adaptation, trains_alike
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.global_batch import ENOUGH_STEPS
from recipec.planner.search.sequences import training_sequences
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision, Wish
from recipec.rules.intervals import steps_taught
from recipec.units import times

SAVES = 0.9  # of the time that each doubling takes at most; our decision
ENOUGH_GENERATIONS = 20  # evaluations and checkpoints stand between them; our decision


def more_answers(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The largest accepted global batch up to which each doubling saves time."""
    taken = _doubled(context, found, loaded, "global_batch_size", ENOUGH_STEPS)
    if taken is None:
        return
    size, changed, then = taken
    yield _told(found, changed, then, "global_batch_size", size, runs, f"a step then learns from {size} answers")


def older_answers(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """The most accepted steps of a generation up to which each doubling saves time, where generations bound a step."""
    assert found.chosen is not None and found.chosen.time is not None
    if found.chosen.time.bound_by != "generation":
        return
    taken = _doubled(context, found, loaded, "updates", ENOUGH_GENERATIONS)
    if taken is None:
        return
    size, changed, then = taken
    steps = size * _values(found).get("answer_passes", 1)
    older = f"{steps - 1} of {steps} steps then learn from answers that older weights wrote"
    price = f"{older}, and the loss limits how far their probabilities may have moved since"
    yield _told(found, changed, then, "updates", size, runs, price)


def _doubled(
    context: Context, found: Fit, loaded: LoadedRecipe, id: str, least: int
) -> tuple[int, Context, Fit] | None:
    """The last doubling of a count of answers that saves time, with as many as `least` of what it makes fewer."""
    assert found.chosen is not None and found.ledger is not None
    decided = found.ledger.decisions.get(id)
    if not METHODS[context.stage.name].generates or decided is None or decided.origin == "recipe":
        return None
    if decided.accepts is None:
        return None
    most = min(decided.accepts[1], decided.value * _times(found, id) / least)
    alike = same_adaptation(context, found)
    one_strategy = {"train.strategy": Wish(found.chosen.layout.strategy, "the search"), **alike}
    taken, size = found, 2 * decided.value
    while size <= most:
        then = fit(_with(context, one_strategy, decided.key, size), loaded)
        if not _alike_and_faster(then, taken):
            break
        taken, size = then, 2 * size
    if taken is found:
        return None
    changed = _with(context, alike, decided.key, size // 2)
    then = fit(changed, loaded)
    return (size // 2, changed, then) if _alike_and_faster(then, found) else None


def _with(context: Context, alike: Mapping[str, Wish], key: str, size: int) -> Context:
    return replace(context, wishes={**alike, key: Wish(size, "more answers")})


def _alike_and_faster(then: Fit, before: Fit) -> bool:
    if then.chosen is None or before.chosen is None or not trains_alike(then.chosen, before.chosen):
        return False
    return pass_seconds(then) <= SAVES * pass_seconds(before)


def _times(found: Fit, id: str) -> float:
    """How many steps the run has as it is, or generations."""
    value = _values(found)
    steps = training_sequences(value) * value["passes"] / value["global_batch_size"]
    return steps / (steps_taught(value) if id == "updates" else 1)


def _told(found: Fit, changed: Context, then: Fit, id: str, size: int, runs: WholeRuns, price: str) -> Proposal:
    assert found.ledger is not None
    faster = times(pass_seconds(then) / pass_seconds(found))
    effect = f"answers are written together, and training takes {faster}"
    change = Change(((found.ledger.decisions[id].key, size),))
    return planned(change, effect, found.chosen, then.chosen, but=(runs.of(changed, then).beside, price))


def _values(found: Fit) -> dict[str, Any]:
    assert found.ledger is not None
    decisions: Mapping[str, Decision] = found.ledger.decisions
    return {id: decision.value for id, decision in decisions.items()}
